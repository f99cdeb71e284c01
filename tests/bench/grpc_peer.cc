// The least IdService that gRPC C++ can make, for bench_grpc.py: callback API, a counter for IDs.
//   grpc_peer PORT
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>

#include <grpcpp/grpcpp.h>

#include "snowfleet/v1/ids.grpc.pb.h"

class Service final : public snowfleet::v1::IdService::CallbackService {
    grpc::ServerUnaryReactor *Next(grpc::CallbackServerContext *context,
                                   const snowfleet::v1::NextRequest *,
                                   snowfleet::v1::NextResponse *response) override {
        response->set_id(next_.fetch_add(1, std::memory_order_relaxed));
        grpc::ServerUnaryReactor *reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        return reactor;
    }

    std::atomic<int64_t> next_{1};
};

int main(int argc, char **argv) {
    if (argc != 2)
        return 64;
    Service service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(std::string("127.0.0.1:") + argv[1],
                             grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (!server)
        return 1;
    std::cout << "listening" << std::endl;
    server->Wait();
}
