#include "worker/reflection.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/grpc_message.h"
#include "common/quote.h"
#include "descriptors.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "worker/rpc_args.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

/* Of the build: proto/CMakeLists.txt. */
extern const unsigned char proto_served[];
extern const size_t proto_served_len;

struct reflection {
    Snowfleet__Descriptors__FileSet *set;
    Snowfleet__Descriptors__File **files; /* one for each of the set's */
    size_t n_services;
};

struct reflection *reflection_new(void) {
    struct reflection *made = allocate(1, sizeof *made);

    made->set = snowfleet__descriptors__file_set__unpack(NULL, proto_served_len, proto_served);
    assert(made->set && made->set->n_file > 0);
    made->files = allocate(made->set->n_file, sizeof *made->files);
    for (size_t i = 0; i < made->set->n_file; i++) {
        made->files[i] = snowfleet__descriptors__file__unpack(NULL, made->set->file[i].len,
                                                              made->set->file[i].data);
        assert(made->files[i]);
        made->n_services += made->files[i]->n_service;
    }
    return made;
}

void reflection_free(struct reflection *reflection) {
    if (!reflection)
        return;
    for (size_t i = 0; i < reflection->set->n_file; i++)
        snowfleet__descriptors__file__free_unpacked(reflection->files[i], NULL);
    free(reflection->files);
    snowfleet__descriptors__file_set__free_unpacked(reflection->set, NULL);
    free(reflection);
}

/* ---- names ---- */

/* What is left of a full name after a scope and its dot; NULL when it is not of that scope. */
static const char *inside(const char *name, const char *scope) {
    size_t len = strlen(scope);

    return strncmp(name, scope, len) == 0 && name[len] == '.' ? name + len + 1 : NULL;
}

/* The values of an enum are named as if they stood beside it. */
static bool enum_defines(const Snowfleet__Descriptors__Enum *type, const char *name) {
    bool found = strcmp(type->name, name) == 0;

    for (size_t i = 0; !found && i < type->n_value; i++)
        found = strcmp(type->value[i]->name, name) == 0;
    return found;
}

static bool service_defines(const Snowfleet__Descriptors__Service *service, const char *name) {
    const char *method = inside(name, service->name);
    bool found = strcmp(service->name, name) == 0;

    for (size_t i = 0; method && !found && i < service->n_method; i++)
        found = strcmp(service->method[i]->name, method) == 0;
    return found;
}

static bool is_message(const Snowfleet__Descriptors__Message *message, const char *name) {
    const char *rest = inside(name, message->name);
    bool found = strcmp(message->name, name) == 0;

    for (size_t i = 0; rest && !found && i < message->n_nested_type; i++)
        found = is_message(message->nested_type[i], rest);
    return found;
}

static bool message_defines(const Snowfleet__Descriptors__Message *message, const char *name) {
    const char *rest = inside(name, message->name);
    bool found = strcmp(message->name, name) == 0;

    for (size_t i = 0; rest && !found && i < message->n_field; i++)
        found = strcmp(message->field[i]->name, rest) == 0;
    for (size_t i = 0; rest && !found && i < message->n_enum_type; i++)
        found = enum_defines(message->enum_type[i], rest);
    for (size_t i = 0; rest && !found && i < message->n_nested_type; i++)
        found = message_defines(message->nested_type[i], rest);
    return found;
}

static bool file_defines(const Snowfleet__Descriptors__File *file, const char *symbol) {
    const char *name = inside(symbol, file->package);
    bool found = false;

    for (size_t i = 0; name && !found && i < file->n_message_type; i++)
        found = message_defines(file->message_type[i], name);
    for (size_t i = 0; name && !found && i < file->n_enum_type; i++)
        found = enum_defines(file->enum_type[i], name);
    for (size_t i = 0; name && !found && i < file->n_service; i++)
        found = service_defines(file->service[i], name);
    return found;
}

static bool has_type(const struct reflection *reflection, const char *type) {
    for (size_t i = 0; i < reflection->set->n_file; i++) {
        const Snowfleet__Descriptors__File *file = reflection->files[i];
        const char *name = inside(type, file->package);

        for (size_t k = 0; name && k < file->n_message_type; k++) {
            if (is_message(file->message_type[k], name))
                return true;
        }
    }
    return false;
}

/* ---- answers ---- */

/* The request goes back in the answer, but not what nobody knows of it: protobuf-c would write a field
 * that came under an odd tag (number 0, say) so that no client can read it. */
static void drop_unknown_fields(ProtobufCMessage *message) {
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        free(message->unknown_fields[i].data);
    free(message->unknown_fields);
    message->unknown_fields = NULL;
    message->n_unknown_fields = 0;
}

/* One answer in the making: what its parts point to. */
struct answer {
    reflection_response response;
    Grpc__Reflection__V1__FileDescriptorResponse file;
    Grpc__Reflection__V1__ExtensionNumberResponse extensions;
    Grpc__Reflection__V1__ListServiceResponse list;
    Grpc__Reflection__V1__ErrorResponse error;
    char message[128];
};

static void answer_error(struct answer *answer, enum grpc_code code, const char *what,
                         const char *name) {
    char quoted[QUOTE_SIZE];

    snprintf(answer->message, sizeof answer->message, "%s %s", what,
             quote(name, strlen(name), quoted));
    grpc__reflection__v1__error_response__init(&answer->error);
    answer->error.error_code = (int32_t)code;
    answer->error.error_message = answer->message;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    answer->response.error_response = &answer->error;
}

static void answer_file(struct answer *answer, const struct reflection *reflection, size_t i) {
    grpc__reflection__v1__file_descriptor_response__init(&answer->file);
    answer->file.file_descriptor_proto = &reflection->set->file[i];
    answer->file.n_file_descriptor_proto = 1;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    answer->response.file_descriptor_response = &answer->file;
}

static void find_file(struct answer *answer, const struct reflection *reflection,
                      const char *name) {
    for (size_t i = 0; i < reflection->set->n_file; i++) {
        if (strcmp(reflection->files[i]->name, name) == 0) {
            answer_file(answer, reflection, i);
            return;
        }
    }
    answer_error(answer, GRPC_NOT_FOUND, "there is no file", name);
}

static void find_symbol(struct answer *answer, const struct reflection *reflection,
                        const char *symbol) {
    for (size_t i = 0; i < reflection->set->n_file; i++) {
        if (file_defines(reflection->files[i], symbol)) {
            answer_file(answer, reflection, i);
            return;
        }
    }
    answer_error(answer, GRPC_NOT_FOUND, "there is no symbol", symbol);
}

static void list_extensions(struct answer *answer, const struct reflection *reflection,
                            char *type) {
    if (!has_type(reflection, type)) {
        answer_error(answer, GRPC_NOT_FOUND, "there is no type", type);
        return;
    }
    grpc__reflection__v1__extension_number_response__init(&answer->extensions);
    answer->extensions.base_type_name = type;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
    answer->response.all_extension_numbers_response = &answer->extensions;
}

static uint8_t *pack_list(struct answer *answer, const struct reflection *reflection, size_t *len) {
    Grpc__Reflection__V1__ServiceResponse *services = allocate(reflection->n_services,
                                                               sizeof *services);
    Grpc__Reflection__V1__ServiceResponse **pointers = allocate(reflection->n_services,
                                                                sizeof *pointers);
    char(*names)[128] = allocate(reflection->n_services, sizeof *names);
    uint8_t *framed;
    size_t n = 0;

    for (size_t i = 0; i < reflection->set->n_file; i++) {
        const Snowfleet__Descriptors__File *file = reflection->files[i];

        for (size_t k = 0; k < file->n_service; k++, n++) {
            snprintf(names[n], sizeof names[n], "%s.%s", file->package, file->service[k]->name);
            grpc__reflection__v1__service_response__init(&services[n]);
            services[n].name = names[n];
            pointers[n] = &services[n];
        }
    }
    grpc__reflection__v1__list_service_response__init(&answer->list);
    answer->list.service = pointers;
    answer->list.n_service = n;
    answer->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    answer->response.list_services_response = &answer->list;
    framed = rpc_pack(&answer->response.base, len);
    free(names);
    free(pointers);
    free(services);
    return framed;
}

static uint8_t *answer_request(const struct reflection *reflection, reflection_request *request,
                               size_t *len) {
    struct answer answer;

    drop_unknown_fields(&request->base);
    if (request->message_request_case ==
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION)
        drop_unknown_fields(&request->file_containing_extension->base);
    grpc__reflection__v1__server_reflection_response__init(&answer.response);
    answer.response.valid_host = request->host;
    answer.response.original_request = request;
    switch (request->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        find_file(&answer, reflection, request->file_by_filename);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        find_symbol(&answer, reflection, request->file_containing_symbol);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        answer_error(&answer, GRPC_NOT_FOUND, "there are no extensions of",
                     request->file_containing_extension->containing_type);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        list_extensions(&answer, reflection, request->all_extension_numbers_of_type);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        return pack_list(&answer, reflection, len);
    default:
        answer_error(&answer, GRPC_INVALID_ARGUMENT, "message_request is missing, host is",
                     request->host);
        break;
    }
    return rpc_pack(&answer.response.base, len);
}

uint8_t *reflection_answer(const struct reflection *reflection, const uint8_t *bytes, size_t len,
                           size_t *answer_len) {
    reflection_request *request = grpc__reflection__v1__server_reflection_request__unpack(NULL, len,
                                                                                          bytes);
    uint8_t *answer;

    if (!request)
        return NULL;
    answer = answer_request(reflection, request, answer_len);
    grpc__reflection__v1__server_reflection_request__free_unpacked(request, NULL);
    return answer;
}
