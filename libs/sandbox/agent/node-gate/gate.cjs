'use strict'
/**
 * Where a warm Node waits: in `--require`, before Node opens the program. It says that it is ready, waits for the
 * program, takes its traces away and returns; Node then runs the entry itself, as a bare `node main.js` would.
 *
 * TypeScript beyond type stripping is typescript.cjs's matter, which is loaded where a program may need it.
 * The value is module.exports or the default export when it is plain data, read at exit, only when the source
 * can have one.
 */
const fs = require('node:fs')
const path = require('node:path')
const { isModuleNamespaceObject, isProxy } = require('node:util/types')

const CONTROL_IN = 198
const CONTROL_OUT = 199
/** What a program gets that names it and has none of its own. */
const LIBRARY = path.join(__dirname, '../node-lib/cofferdam.cjs')
const VALUE_MAX = 32 * 1024
const DEPTH_MAX = 64
/** Files looked at to decide whether TypeScript may need transforming: provided files are at most 256. */
const SCAN_MAX = 256

const IS_TYPESCRIPT = /\.(?:[mc]?ts|tsx)$/

function readExactly(size) {
  const bytes = Buffer.alloc(size)
  for (let at = 0; at < size;) {
    const got = fs.readSync(CONTROL_IN, bytes, at, size - at, null)
    if (got === 0) process.reallyExit(0)
    at += got
  }
  return bytes
}

function wait() {
  // What nearly every program needs for its first output. The streams themselves would be handles of the program that
  // a bare run has not opened yet; making them takes 0.9 ms, loading this for them 1.5 ms and up.
  require('node:net')
  require('node:vm')
  fs.writeSync(CONTROL_OUT, `R${process.version}\n`)
  const fields = readExactly(readExactly(4).readUInt32LE(0)).toString('utf8').split('\0')
  const [flags, entry, count, ...rest] = fields
  if (flags === 's') {
    setEnvironment(rest)
    return null
  }
  const [hasInput, reports] = flags
  fs.closeSync(CONTROL_IN)
  if (hasInput === '0') {
    // The lowest free number is 0 again.
    fs.closeSync(0)
    fs.openSync('/dev/null')
  }
  process.argv.push(...rest.slice(0, Number(count)))
  setEnvironment(rest.slice(Number(count)))
  return { entry, reports: reports === 'r' }
}

function setEnvironment(items) {
  for (const name of Object.keys(process.env)) delete process.env[name]
  for (const item of items) {
    const at = item.indexOf('=')
    process.env[item.slice(0, at)] = item.slice(at + 1)
  }
}

// ---- The interpreter that a session keeps

/** Node then opens "the entry" by this instead: no file is run, session.cjs waits for what to run. */
function serveSession() {
  const { serve } = require('./session.cjs')
  const pid = process.pid
  const strip = (source, filename) =>
    IS_TYPESCRIPT.test(filename) ? require('./typescript.cjs').stripped(source, filename) : source
  require('node:module').runMain = () =>
    serve({
      work: process.cwd(),
      strip,
      offerReports,
      nextRun() {
        const fields = readExactly(readExactly(4).readUInt32LE(0)).toString('utf8').split('\0')
        const [stdin, entry, count, ...rest] = fields
        return { stdin, entry, argv: rest.slice(0, Number(count)), env: rest.slice(Number(count)) }
      },
      report(value) {
        const text = value === undefined ? undefined : encode(value, DEPTH_MAX)
        const bytes = Buffer.from(text ?? '')
        if (bytes.length > 0 && bytes.length <= VALUE_MAX) sendValue(bytes)
      },
      done(code) {
        if (process.pid === pid) fs.writeSync(CONTROL_OUT, `D${code}\n`)
      },
    })
}

function sendValue(bytes) {
  const head = Buffer.alloc(5)
  head.write('V')
  head.writeUInt32LE(bytes.length, 1)
  fs.writeSync(CONTROL_OUT, Buffer.concat([head, bytes]))
}

function removeTraces() {
  // Worker threads start with the real ones: only ours go.
  if (process.execArgv[1] === __filename) process.execArgv = process.execArgv.slice(2)
  process._preload_modules.length = 0
  forget(__filename)
}

function forget(filename) {
  const { _pathCache: found } = require('node:module')
  delete require.cache[filename]
  for (const key of Object.keys(found)) if (found[key] === filename) delete found[key]
}

// ---- Progress

/** Behind every other way to find it, so that a module of the program's own is found first. */
function offerReports() {
  const nodeModule = require('node:module')
  if (nodeModule.registerHooks === undefined) {
    // Before Node 22.15 there is no such hook for ES modules without another thread: require alone finds it.
    const resolve = nodeModule._resolveFilename
    nodeModule._resolveFilename = function (request, ...rest) {
      try {
        return resolve.call(this, request, ...rest)
      } catch (error) {
        if (request === 'cofferdam') return LIBRARY
        throw error
      }
    }
    return
  }
  nodeModule.registerHooks({
    resolve(specifier, context, next) {
      if (specifier !== 'cofferdam') return next(specifier, context)
      try {
        return next(specifier, context)
      } catch {
        const url = require('node:url').pathToFileURL(LIBRARY).href
        return { url, format: 'commonjs', shortCircuit: true }
      }
    },
  })
}

// ---- TypeScript beyond what Node strips by itself

/**
 * Imports of other files or packages, decorators, and words of what is more than types: typescript.cjs looks
 * properly.
 */
const MAY_NEED_HOOKS =
  /(?:\bfrom|\bimport|\brequire\s*\()\s*\(?\s*['"](?!node:)|(?:^|[\s(,{;])@[A-Za-z_$(]|\b(?:enum|namespace|module|public|private|protected|readonly|override)\b|\bimport\s+(?:type\s+)?[\w$]+\s*=|\bexport\s*=|(?:[=(,?:;&|[!]|\breturn)\s*<[A-Za-z]/m

const needsHooks = (entry, source) =>
  IS_TYPESCRIPT.test(entry) ? MAY_NEED_HOOKS.test(source) : hasOtherTypeScript(entry)

function hasOtherTypeScript(entry) {
  const waiting = ['.']
  for (let seen = 0; waiting.length > 0 && seen < SCAN_MAX;) {
    const folder = waiting.pop()
    for (const item of fs.readdirSync(folder, { withFileTypes: true })) {
      seen++
      const name = path.join(folder, item.name)
      if (item.isDirectory() && item.name !== 'node_modules') waiting.push(name)
      else if (item.isFile() && name !== entry && IS_TYPESCRIPT.test(name)) return true
    }
  }
  return false
}

// ---- The value

function reportValueAtExit(entry, source) {
  const filename = path.resolve(entry)
  const pipe = fs.fstatSync(CONTROL_OUT).ino
  process.once('exit', (code) => {
    if (code !== 0) return
    try {
      const value = valueOf(filename, source)
      const text = value === undefined ? undefined : encode(value, DEPTH_MAX)
      if (text === undefined) return
      const bytes = Buffer.from(text)
      if (bytes.length > VALUE_MAX || fs.fstatSync(CONTROL_OUT).ino !== pipe) return
      sendValue(bytes)
    } catch {
      // No value: the program took the pipe away, or the module cannot be read.
    }
  })
}

function valueOf(filename, source) {
  const { createRequire } = require('node:module')
  const main = process.mainModule
  if (main !== undefined && main.filename === filename && main.loaded) {
    const { exports } = main
    if (exports === null || typeof exports !== 'object' || isProxy(exports)) return exports
    if (isEsmNamespace(exports)) return Object.getOwnPropertyDescriptor(exports, 'default')?.value
    return Object.keys(exports).length === 0 ? undefined : exports
  }
  // An ES module: require() gives the namespace that is already evaluated, and throws for top-level await. Node first
  // tried it as CommonJS, and that empty attempt is cached. A program that rewrote its own file has no value.
  if (main !== undefined || fs.readFileSync(filename, 'utf8') !== source) return undefined
  delete require.cache[filename]
  const namespace = createRequire(filename)(filename)
  return isEsmNamespace(namespace) ? namespace.default : undefined
}

const isEsmNamespace = (value) => isModuleNamespaceObject(value) || Object.hasOwn(value, '__esModule')

/** JSON text of plain data; undefined for anything else, so that no getter or toJSON of the program runs. */
function encode(value, depth) {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number') return Number.isFinite(value) ? String(value === 0 ? 0 : value) : undefined
  if (typeof value === 'string') return value.length <= VALUE_MAX ? JSON.stringify(value) : undefined
  if (typeof value !== 'object' || depth === 0 || isProxy(value)) return undefined
  const isList = Array.isArray(value)
  const proto = Object.getPrototypeOf(value)
  if (isList ? proto !== Array.prototype : proto !== Object.prototype && proto !== null) return undefined
  const parts = []
  let size = 0
  const names = isList
    ? Array.from({ length: Math.min(value.length, VALUE_MAX) }, (_, i) => i)
    : Object.keys(value)
  for (const name of names) {
    const own = Object.getOwnPropertyDescriptor(value, name)
    if (own === undefined || !('value' in own)) return undefined
    const text = encode(own.value, depth - 1)
    if (text === undefined) return undefined
    const part = isList ? text : `${JSON.stringify(name)}:${text}`
    size += part.length
    if (size > VALUE_MAX) return undefined
    parts.push(part)
  }
  return isList ? `[${parts.join(',')}]` : `{${parts.join(',')}}`
}

function open() {
  // Worker threads of the program load preload modules again; they and anything without our pipes pass through.
  if (!require('node:worker_threads').isMainThread) return removeTraces()
  let program
  try {
    program = wait()
  } catch {
    return
  }
  removeTraces()
  if (program === null) return serveSession()
  const { entry, reports } = program
  try {
    const source = fs.readFileSync(entry, 'utf8')
    if (reports) offerReports()
    if (needsHooks(entry, source)) {
      require('./typescript.cjs').install(entry, source)
      forget(require.resolve('./typescript.cjs'))
    }
    if (/\bexports\b|\bexport\s+default\b|\bas\s+default\b/.test(source)) reportValueAtExit(entry, source)
    else if (!reports) fs.closeSync(CONTROL_OUT)
  } catch {
    // Node says itself what is wrong with the entry.
  }
}

open()
