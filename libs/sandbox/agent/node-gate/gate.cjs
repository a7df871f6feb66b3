'use strict'
/**
 * The gate of Node.js: it waits in `--require`, before Node opens the program. It reports that it is ready,
 * waits for the program, removes its traces and returns. Node then runs the entry itself, like `node
 * main.js`.
 *
 * typescript.cjs is loaded only for a program that may need more than type stripping. value.cjs reports the
 * value.
 */
const fs = require('node:fs')
const path = require('node:path')
const { reportValueAtExit, sendValue } = require('./value.cjs')

const CONTROL_IN = 198
const CONTROL_OUT = 199
/** The module `cofferdam` for a program without its own module of that name. */
const LIBRARY = path.join(__dirname, '../node-lib/cofferdam.cjs')
/** Files to check for TypeScript that must be transformed: at most 256 files are provided. */
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
  // Loaded now, because nearly every program needs it for its first output (1.5 ms and more). The streams are
  // created later, because a bare run has no such handles yet.
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

/** Replaces the function with which Node runs the entry: session.cjs waits for runs instead. */
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
      report: sendValue,
      done(code) {
        if (process.pid === pid) fs.writeSync(CONTROL_OUT, `D${code}\n`)
      },
    })
}

function removeTraces() {
  // Remove only ours, because worker threads start with the program's own.
  if (process.execArgv[1] === __filename) process.execArgv = process.execArgv.slice(2)
  process._preload_modules.length = 0
  forget(__filename)
  forget(path.join(__dirname, 'value.cjs'))
}

function forget(filename) {
  const { _pathCache: found } = require('node:module')
  delete require.cache[filename]
  for (const key of Object.keys(found)) if (found[key] === filename) delete found[key]
}

// ---- Progress

/** Last in the resolution, so that a program's own module is found first. */
function offerReports() {
  const nodeModule = require('node:module')
  if (nodeModule.registerHooks === undefined) {
    // Before Node 22.15 only `require` can have such a hook without another thread.
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
 * Imports of other files or packages, decorators, and syntax beyond types. May match too often:
 * typescript.cjs then parses properly.
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

function open() {
  // Worker threads of a program load this file again. They do not wait, nor does a Node without our pipes.
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
    // Node itself reports what is wrong with the entry.
  }
}

open()
