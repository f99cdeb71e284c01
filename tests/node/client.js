'use strict';
// A client as Node programs write it (@grpc/grpc-js).  Each line of stdin is a JSON request, {"do":
// name, ...}, each line of stdout the answer to one, or an event.
//   node client.js PROTO-FOLDER ADDRESS [CA CERT KEY]
const fs = require('fs');
const readline = require('readline');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [protoFolder, address, ca, cert, key] = process.argv.slice(2);
const files = ['snowfleet/v1/ids.proto', 'snowfleet/v1/clock.proto', 'grpc/health/v1/health.proto',
  'grpc/reflection/v1/reflection.proto'];
const root = grpc.loadPackageDefinition(loader.loadSync(files,
  { includeDirs: [protoFolder], longs: String, enums: String, defaults: true, keepCase: true }));
const credentials = ca
  ? grpc.credentials.createSsl(...[ca, key, cert].map((name) => name && fs.readFileSync(name)))
  : grpc.credentials.createInsecure();
const options = {
  'grpc.enable_http_proxy': 0,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 500,
  'grpc.service_config': JSON.stringify({
    methodConfig: [{
      name: [{ service: 'snowfleet.v1.IdService', method: 'Next' }],
      retryPolicy: {
        maxAttempts: 5, initialBackoff: '0.2s', maxBackoff: '2s', backoffMultiplier: 2,
        retryableStatusCodes: ['UNAVAILABLE'],
      },
    }],
  }),
};
const ids = new root.snowfleet.v1.IdService(address, credentials, options);
const clock = new root.snowfleet.v1.ClockService(address, credentials, options);
const health = new root.grpc.health.v1.Health(address, credentials, options);
const reflection = new root.grpc.reflection.v1.ServerReflection(address, credentials, options);

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const failure = (err) => ({
  code: grpc.status[err.code], details: err.details,
  pushback: err.metadata && err.metadata.get('grpc-retry-pushback-ms')[0],
});
const unary = (client, method, request, call = {}) => new Promise((resolve) => {
  client[method](request, call, (err, reply) => resolve(err ? failure(err) : reply));
});
const soon = (ms) => ({ deadline: Date.now() + ms });

const actions = {
  next: ({ request }) => unary(ids, 'Next', request, soon(60000)),
  batch: ({ request, deadline_ms }) => unary(ids, 'NextBatch', request, soon(deadline_ms || 60000)),
  decode: ({ request }) => unary(ids, 'Decode', request),
  probe: () => unary(clock, 'Probe', {}),
  check: ({ service }) => unary(health, 'Check', { service }),
  // Reads as many messages as asked for, or to the end, and then cancels.
  stream: ({ request, messages }) => new Promise((resolve) => {
    const call = ids.Stream(request);
    const seen = [];
    call.on('data', (reply) => {
      seen.push(...reply.ids);
      if (messages && --messages.left === 0) call.cancel();
    });
    call.on('error', (err) => resolve({ ids: seen, ...failure(err) }));
    call.on('end', () => resolve({ ids: seen, code: 'OK' }));
  }),
  cancel: () => new Promise((resolve) => {
    const calls = [];
    let open = 50;
    const codes = {};
    for (let i = 0; i < 50; i++) {
      calls.push(ids.NextBatch({ count: 10000 }, (err) => {
        const code = err ? grpc.status[err.code] : 'OK';
        codes[code] = (codes[code] || 0) + 1;
        if (--open === 0) resolve(codes);
      }));
    }
    calls.forEach((call, i) => i % 2 && call.cancel());
  }),
  watch: ({ service }) => {
    const call = health.Watch({ service });
    call.on('data', (reply) => say({ watched: reply.status }));
    call.on('error', (err) => say({ watched: grpc.status[err.code] }));
    return Promise.resolve({ watching: service });
  },
  services: () => new Promise((resolve) => {
    const call = reflection.ServerReflectionInfo();
    let names = [];
    call.on('data', (reply) => { names = reply.list_services_response.service.map((each) => each.name); });
    call.on('error', (err) => resolve(failure(err)));
    call.on('end', () => resolve({ names }));
    call.write({ list_services: '' });
    call.end();
  }),
  // One call after the other until the next "stop".
  keep_calling: async () => {
    const result = { answered: 0, failed: {} };
    stopped = false;
    while (!stopped) {
      const reply = await actions.next({ request: {} });
      if (reply.id) {
        result.answered++;
        seenIds.add(reply.id);
      } else {
        result.failed[reply.code] = (result.failed[reply.code] || 0) + 1;
      }
    }
    return { ...result, different: seenIds.size };
  },
  stop: () => {
    stopped = true;
    return Promise.resolve({ stopping: true });
  },
};
let stopped = true;
const seenIds = new Set();

const input = readline.createInterface({ input: process.stdin });
input.on('line', async (line) => {
  const request = JSON.parse(line);
  say({ did: request.do, ...(await actions[request.do](request)) });
});
input.on('close', () => process.exit(0));
