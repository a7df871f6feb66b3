/** Node programs whose end or output is easy to get wrong when another program starts Node. */
import type { TrickyProgram } from './tricky-program.ts'

const js = String.raw

export const JAVASCRIPT_PROGRAMS: readonly TrickyProgram[] = [
  {
    name: 'process.exit with odd codes',
    source: 'process.on("exit", (c) => console.log(c, process.exitCode)); process.exit(-1)',
  },
  { name: 'process.exit with a text', source: 'process.exit("7")' },
  { name: 'process.exitCode then process.exit()', source: 'process.exitCode = 3; process.exit()' },
  { name: 'an exit code of the wrong type', source: 'process.exitCode = "x"' },
  {
    name: 'a new exit code in the exit handler',
    source: 'process.on("exit", () => { process.exitCode = 42 })',
  },
  { name: 'a throw in the exit handler', source: 'process.on("exit", () => { throw new Error("at exit") })' },
  { name: 'process.reallyExit', source: 'console.log("x"); process.reallyExit(8)' },
  { name: 'process.abort', source: 'console.log("x"); process.abort()' },
  { name: 'a thrown error', source: 'function f() { throw new RangeError("bad") }\nconsole.log("a")\nf()' },
  {
    name: 'an error with a cause and properties',
    source:
      'throw Object.assign(new Error("out", { cause: new TypeError("in") }), { code: "E_X", list: [1, { a: 2 }] })',
  },
  { name: 'a thrown text', source: 'throw "only text"' },
  { name: 'a thrown null', source: 'throw null' },
  { name: 'an aggregate error', source: 'Promise.any([Promise.reject(new Error("1")), Promise.reject(2)])' },
  { name: 'an unhandled rejection of undefined', source: 'Promise.reject()' },
  {
    name: 'a rejection that is handled too late',
    source: 'const p = Promise.reject(new Error("late")); setTimeout(() => p.catch(console.log), 20)',
  },
  {
    name: 'handlers for what nobody caught',
    source:
      'process.on("uncaughtException", (e, o) => console.log(e.message, o)); process.on("unhandledRejection", (r) => console.log("rejected", r)); Promise.reject(1); setTimeout(() => { throw new Error("x") }, 5)',
  },
  {
    name: 'a throw inside the uncaught handler',
    source: 'process.on("uncaughtException", () => { throw new Error("again") }); throw new Error("first")',
  },
  { name: 'a syntax error', source: 'const a = 1\nlet a = 2\n' },
  { name: 'an unexpected end', source: 'function f() {\n  if (1) {\n' },
  { name: 'a hashbang', source: '#!/usr/bin/env node\nconsole.log("bang"); throw new Error("line 2")' },
  { name: 'a byte order mark', source: '\ufeffconsole.log("bom")' },
  { name: 'a stack overflow', source: 'function f() { f() }\nf()' },
  {
    name: 'names of the CommonJS wrapper',
    source:
      'console.log(__filename, __dirname, require.main === module, module.id, module.parent, module.paths, arguments.length, this === module.exports, Object.keys(require.cache), module.children.length, process.mainModule === module)',
  },
  {
    name: 'the process as it is',
    source:
      'console.log(process.argv, process.execArgv, process.execPath, process.title, process.argv0, process.cwd(), process.env, process.eventNames(), process.allowedNodeEnvironmentFlags.size, process.report?.directory)',
    argv: ['--flag', 'é', ''],
  },
  {
    name: 'ES module by its syntax',
    source:
      'import { readFileSync } from "node:fs"\nconsole.log(import.meta.url, import.meta.filename, import.meta.main, typeof require, this, readFileSync(import.meta.filename, "utf8").length)',
  },
  {
    name: 'top-level await',
    source: 'const x = await new Promise((r) => setTimeout(r, 5, 3))\nconsole.log(x)\nexport default x',
  },
  {
    name: 'a top-level await that never ends',
    source: 'console.log(1)\nawait new Promise(() => {})\nconsole.log(2)',
  },
  { name: 'a throw after top-level await', source: 'await 1\nthrow new Error("esm")' },
  {
    name: 'import and require mixed',
    source: 'import fs from "node:fs"\nconst os = require("os")\nconsole.log(os)',
  },
  { name: 'a missing named export', source: 'import { nothing } from "node:fs"\nconsole.log(nothing)' },
  { name: 'a missing module by require', source: 'require("./not-there")' },
  { name: 'a missing package by import', source: 'import "not-there-at-all"' },
  {
    name: 'a dynamic import that fails',
    source: 'import("./no.mjs").catch((e) => console.log(e.code, e.message)); import("node:nothing")',
  },
  {
    name: 'exports that must not run code',
    source:
      'module.exports = { get a() { console.log("getter"); return 1 }, toJSON() { console.log("json"); return 1 } }',
  },
  {
    name: 'exports that look like an ES module and have getters',
    source:
      'class A { get [Symbol.toStringTag]() { console.log("tag"); return "Module" } }\nmodule.exports = Object.defineProperty(new A(), "default", { get() { console.log("default"); return 1 } })\nexports.x = 1',
  },
  {
    name: 'exports that are a proxy',
    source:
      'module.exports = new Proxy({}, { get() { console.log("get") }, ownKeys() { console.log("keys"); return [] }, getPrototypeOf() { console.log("proto"); return null } })',
  },
  {
    name: 'an ES module with a default export and an exit handler',
    source:
      'export default { a: [1, 2] }\nprocess.on("exit", () => console.log("exit"))\nprocess.on("beforeExit", () => console.log("before"))',
  },
  {
    name: 'an ES module that writes its name once',
    source:
      'import fs from "node:fs"\nfs.appendFileSync("log", "x")\nexport default fs.readFileSync("log", "utf8")\nprocess.on("exit", () => console.log(fs.readFileSync("log", "utf8")))',
  },
  {
    name: 'beforeExit that goes on',
    source:
      'let n = 0\nprocess.on("beforeExit", (c) => { console.log("before", c, n); if (n++ < 2) setTimeout(() => {}, 1) })',
  },
  {
    name: 'worker threads',
    source: js`
const { Worker, isMainThread, parentPort, workerData, threadId } = require('node:worker_threads')
if (isMainThread) {
  const w = new Worker(__filename, { workerData: [1, 2], argv: ['w'] })
  w.on('message', (m) => console.log(m)).on('exit', (c) => { console.log('exit', c) })
} else {
  parentPort.postMessage([workerData, process.argv.slice(1), process.execArgv, Object.keys(require.cache), require.main === module])
  if (threadId !== 1) console.log('from the thread', threadId)
  process.exit(5)
}`,
  },
  {
    name: 'a worker that throws',
    source:
      'const { Worker } = require("worker_threads"); new Worker("throw new TypeError(\'in worker\')", { eval: true })',
  },
  {
    name: 'child processes',
    source: js`
const cp = require('node:child_process')
console.log(cp.execFileSync(process.execPath, ['-e', 'console.log(process.execArgv, process.argv.length)']).toString())
console.log(cp.spawnSync('sh', ['-c', 'echo out; echo err >&2; kill -9 $$']).signal)
try { cp.execSync('exit 3', { stdio: 'inherit' }) } catch (e) { console.log(e.status, e.message) }
cp.exec('nosuchcommand', (e, out, err) => console.log(e.code, err))`,
  },
  {
    name: 'fork of itself',
    source:
      'const cp = require("child_process"); if (process.send) { process.send({ argv: process.execArgv, main: require.main === module }); process.exit(2) } else cp.fork(__filename).on("message", (m) => console.log(m)).on("exit", (c) => console.log("exit", c))',
  },
  {
    name: 'cluster',
    source:
      'const cluster = require("cluster"); if (cluster.isPrimary) { cluster.fork().on("exit", (c) => console.log("worker", c)) } else { console.log("in worker"); process.exit(4) }',
  },
  {
    name: 'standard input at its end',
    source:
      'process.stdin.on("data", (d) => console.log("data", d)).on("end", () => console.log("end")).on("close", () => console.log("close")); console.log(process.stdin.constructor.name, process.stdin.isTTY, process.stdin.fd)',
  },
  {
    name: 'standard input read at once',
    source:
      'console.log(require("fs").readFileSync(0, "utf8").length, require("fs").fstatSync(0).isCharacterDevice())',
  },
  {
    name: 'lines of standard input',
    source:
      'const rl = require("readline").createInterface({ input: process.stdin }); rl.on("line", (l) => console.log("[" + l + "]")).on("close", () => console.log("closed"))',
    stdin: 'a\nb\r\nlast',
  },
  {
    name: 'a question without an answer',
    source:
      'const rl = require("readline/promises").createInterface({ input: process.stdin, output: process.stdout })\nrl.question("name? ").then(console.log)',
  },
  {
    name: 'both streams and the console',
    source:
      'console.error("e1"); console.log("o1"); console.warn("e2"); console.info("%s %d %j %o", "a", 1.5, { b: 1 }, [1]); console.table([{ a: 1 }]); console.group("g"); console.log("in"); console.trace("t"); console.assert(false, "no"); console.count(); console.dir({ a: { b: { c: { d: 1 } } } }, { depth: 0 })',
  },
  {
    name: 'what the streams are',
    source:
      'for (const s of [process.stdout, process.stderr]) console.log(s.constructor.name, s.isTTY, s.fd, s.writableHighWaterMark, s.hasColors, s._type)',
  },
  {
    name: 'exit while writes are pending',
    source: 'process.stdout.write("x".repeat(6e4)); process.stderr.write("y".repeat(3e4)); process.exit(1)',
  },
  {
    name: 'much output without a newline, asynchronously',
    source: 'let n = 0; (function next() { if (n++ < 200) process.stdout.write("z".repeat(5000), next) })()',
  },
  {
    name: 'a child that inherits stdout and floods it',
    source:
      'require("child_process").spawn("seq", ["200000"], { stdio: "inherit" }).on("exit", (c) => { process.exitCode = c + 3 })',
  },
  {
    name: 'handles that are open',
    source:
      'require("fs").writeSync(1, process.getActiveResourcesInfo().join() + process._getActiveHandles().length)',
  },
  {
    name: 'a closed stdout',
    source:
      'process.stdout.end("last"); process.stdout.on("error", (e) => console.error(e.code)); setTimeout(() => { console.log("lost"); process.exitCode = 6 }, 5)',
  },
  {
    name: 'file descriptors that open next',
    source:
      'const fs = require("fs"); console.log(fs.openSync("/dev/null") < 40, fs.readdirSync("/proc/self/fd").filter((f) => f > 100))',
  },
  {
    name: 'signals',
    source:
      'process.on("SIGTERM", (s, n) => { console.log(s, n); process.removeAllListeners("SIGTERM"); process.kill(process.pid, "SIGTERM") }); setTimeout(() => {}, 3000); process.kill(process.pid, "SIGTERM")',
  },
  { name: 'killed by SIGINT', source: 'process.kill(process.pid, "SIGINT"); setTimeout(() => {}, 3000)' },
  {
    name: 'warnings',
    source:
      'process.emitWarning("careful", { code: "C1", detail: "more" }); new Buffer(1); require("punycode"); new (require("events"))().setMaxListeners(1).on("a", () => {}).on("a", () => {})',
  },
  {
    name: 'the error stack with source maps off',
    source:
      'Error.stackTraceLimit = 50; console.log(new Error("x").stack); Error.prepareStackTrace = (_, s) => s.map((c) => c.getFileName() + ":" + c.getLineNumber()).join(); console.log(new Error().stack)',
  },
  {
    name: 'globals',
    source: 'console.log(Object.getOwnPropertyNames(globalThis).join(), Object.keys(globalThis).join())',
  },
  {
    name: 'modules that are loaded already',
    source:
      'console.log(process.moduleLoadList.length > 0, require("module").builtinModules.length, Object.keys(require("module")._extensions), require("module")._pathCache, require("module")._preloadModules?.length)',
  },
  {
    name: 'vm, eval and Function',
    source:
      'const vm = require("vm"); console.log(vm.runInNewContext("a + 1", { a: 1 }), eval("var q = 5; q"), new Function("return this")() === globalThis); vm.runInThisContext("throw new Error(1)", "named.js")',
  },
  {
    name: 'the test runner',
    source:
      'const { test } = require("node:test"); const assert = require("assert"); const { write } = process.stdout; process.stdout.write = (text) => write.call(process.stdout, String(text).replace(/[\\d.]+(?=ms)|(?<=duration_ms )[\\d.]+/g, "N")); test("one", () => assert.equal(1, 1)); process.on("exit", (c) => console.log("code", c))',
  },
  {
    name: 'an assertion that fails',
    source: 'require("assert").deepStrictEqual({ a: [1, 2] }, { a: [1, 3] })',
  },
  {
    name: 'async hooks and timers at the end',
    source:
      'setImmediate(() => { console.log("immediate"); setTimeout(() => console.log("timeout"), 1) }); process.nextTick(() => console.log("tick")); queueMicrotask(() => console.log("micro")); Promise.resolve().then(() => console.log("then")); console.log("sync")',
  },
]

export const TYPESCRIPT_PROGRAMS: readonly TrickyProgram[] = [
  {
    name: 'generics, satisfies, as const and assertions',
    source:
      'const id = <T,>(x: T): T => x\nconst a = { b: 1 } satisfies Record<string, number>\nconst c = ["x"] as const\nlet d!: number\nd = (id<number>(a.b) as any)!\nconsole.log(d, c, id.toString())',
  },
  {
    name: 'lines of an error',
    source:
      'interface A { x: number }\ntype B = {\n  y: string\n}\nfunction f(this: void, a: A, ...r: B[]): never {\n  throw new Error(`${a.x}`)\n}\nf({ x: 1 })',
  },
  {
    name: 'type-only imports and exports',
    source:
      'import type { Stats } from "node:fs"\nimport { type PathLike, existsSync } from "node:fs"\nexport type X = Stats | PathLike\nconsole.log(existsSync("main.ts"), import.meta.main)',
  },
  {
    name: 'abstract classes and overloads',
    source:
      'abstract class A { abstract f(): number; declare z: string; private x = 1; static readonly s?: number; g(): void; g(a?: number): void { console.log(a, this.x) } }\nclass B extends A { override f() { return 2 } }\nnew B().g(); console.log(new B().f(), Object.keys(new B()))',
  },
  { name: 'a syntax error', source: 'const a: number = = 3\n' },
  { name: 'a syntax error beside the word enum', source: '// enum and namespace\nconst a: = 3\n' },
  { name: 'a missing module beside the word enum', source: '// enum\nimport "./nothing.ts"\n' },
  {
    name: 'a missing import beside the word enum',
    source: '// enum\nimport { nothing } from "node:fs"\nconsole.log(nothing)\n',
  },
  {
    name: 'CommonJS by its syntax',
    source:
      'const fs: typeof import("node:fs") = require("node:fs")\nconsole.log(typeof fs.readFileSync, __filename, require.main === module)\nmodule.exports = { a: 1 as number }',
  },
  {
    name: 'declare and ambient words',
    source:
      'declare const nothing: number\ndeclare module "x" { export const a: number }\ndeclare namespace N { type T = number }\nconst namespace = 1, module = 2, type = 3\nconsole.log(namespace, module, type)',
  },
  { name: 'a type error that nobody checks', source: 'const n: number = "text"\nconsole.log(n)' },
  {
    name: 'top-level await',
    source: 'const x: number = await Promise.resolve(4)\nconsole.log(x)\nexport {}',
  },
  {
    name: 'arguments and input',
    source:
      'console.log(process.argv.slice(2) as string[])\nprocess.stdin.on("data", (d: Buffer) => console.log(String(d)))',
    argv: ['a'],
    stdin: 'in',
  },
]
