'use strict'
/**
 * The Node.js that a session keeps. Every run is a script in the same global scope: later runs see earlier
 * top-level names, and a const or let name cannot be declared again (as in Node's REPL). A run ends when its
 * source, its top-level awaits and everything that it put into the event loop are done.
 */
const fs = require('node:fs')
const path = require('node:path')
const vm = require('node:vm')
const { createRequire } = require('node:module')
const { inspect } = require('node:util')
const { withoutImports } = require('./imports.cjs')

/** Takes over the process. `gate` has the control pipes, the value encoder and the TypeScript transformer. */
function serve(gate) {
  let number = 0
  let code = 0
  let isRunning = false
  let mayReport = false
  const outputs = [1, 2].map(pipeOf)
  let haveEnded = false
  for (const name of ['stdout', 'stderr']) onEnded(name, () => (haveEnded = true))

  globalThis.require = createRequire(path.join(process.cwd(), 'main.js'))
  globalThis.module = { exports: {} }
  globalThis.exports = globalThis.module.exports

  process.setUncaughtExceptionCaptureCallback((error) => {
    if (isRunning && process.listenerCount('uncaughtException') > 0) {
      process.emit('uncaughtException', error, 'uncaughtException')
      return
    }
    fail(error)
  })
  process.on('beforeExit', next)
  keepOwnWarning()
  next()

  function next() {
    if (isRunning) end()
    const { stdin, entry, argv, env } = gate.nextRun()
    // Then 0 is the lowest free number even if an earlier run closed its input, because the outputs are open.
    if (isOpen(0)) fs.closeSync(0)
    fs.openSync(stdin === '' ? '/dev/null' : stdin)
    if (stdin !== '') fs.unlinkSync(stdin)
    forgetStdin()
    process.argv = [process.execPath, path.resolve(gate.work, entry), ...argv]
    for (const item of env) process.env[item.slice(0, item.indexOf('='))] = item.slice(item.indexOf('=') + 1)
    number++
    code = 0
    isRunning = true
    process.exitCode = undefined
    // Keeps the event loop alive until its next end.
    setImmediate(run, path.resolve(gate.work, entry))
  }

  function run(filename) {
    const before = (globalThis.module ??= { exports: {} }).exports
    const keys = ownKeys(before)
    const tell = (result) => {
      const { exports } = globalThis.module ?? {}
      const isSet = exports !== before || ownKeys(exports) !== keys
      gate.report(isSet ? exports : result)
    }
    try {
      const source = gate.strip(fs.readFileSync(filename, 'utf8'), filename)
      if (!mayReport && source.includes('cofferdam')) {
        mayReport = true
        gate.offerReports()
      }
      const result = evaluate(source, `<run ${number}>`)
      if (result.isPromise) result.value.then(tell, fail)
      else tell(result.value)
    } catch (error) {
      fail(error)
    }
  }

  function fail(error) {
    code = 1
    try {
      const text =
        error instanceof Error && typeof error.stack === 'string' ? decorated(error) : inspect(error)
      fs.writeSync(2, `Uncaught ${text}\n`)
    } catch {
      // Its stderr is closed, but the exit code still reports the error.
    }
  }

  function end() {
    isRunning = false
    const asked = Number(process.exitCode ?? 0)
    const said = code !== 0 ? code : asked & 255
    if (!hasOutputs()) process.reallyExit(said)
    gate.done(said)
  }

  /**
   * Whether output of the next run would arrive. If a program closed or ended an output, the interpreter
   * ends, and the next run gets a fresh one.
   */
  function hasOutputs() {
    return !haveEnded && outputs.every((pipe, at) => pipe === pipeOf(at + 1))
  }
}

/** Node.js warns once, at the first import(), of an option that this file sets. No program can avoid that. */
function keepOwnWarning() {
  // Put back as it is: a bound one would be another function.
  // oxlint-disable-next-line typescript/unbound-method
  const { emitWarning } = process
  process.emitWarning = (warning, ...rest) => {
    if (!String(warning).startsWith('vm.USE_MAIN_CONTEXT_DEFAULT_LOADER '))
      return emitWarning(warning, ...rest)
    process.emitWarning = emitWarning
  }
}

/**
 * Notices that a program ended one of its outputs. Node.js hides that: the stream says that it is writable,
 * but every write fails. The stream is still created only when the program first uses it.
 */
function onEnded(name, listener) {
  const own = Object.getOwnPropertyDescriptor(process, name)
  let stream
  Object.defineProperty(process, name, {
    configurable: true,
    enumerable: true,
    get() {
      if (stream === undefined) {
        stream = own.get.call(process)
        stream.once('finish', listener)
      }
      return stream
    },
  })
}

/** The pipe behind a descriptor; null if there is none. */
function pipeOf(fd) {
  try {
    const { dev, ino } = fs.fstatSync(fd)
    return `${dev}:${ino}`
  } catch {
    return null
  }
}

const isOpen = (fd) => pipeOf(fd) !== null

const ownKeys = (value) => (value !== null && typeof value === 'object' ? Object.keys(value).join('\0') : '')

/** Removes the last frames: they belong to this file and not to the program. */
function decorated(error) {
  const lines = error.stack.split('\n')
  const ours = lines.findIndex((line) => line.includes(__filename) || line.includes('node:vm'))
  const kept = (ours < 0 ? lines : lines.slice(0, ours)).join('\n')
  return Object.keys(error).length === 0 ? kept : `${kept} ${inspect({ ...error })}`
}

/** process.stdin is created once, but the next run has another input with the same number. */
function forgetStdin() {
  const own = Object.getOwnPropertyDescriptor(process, 'stdin')
  if (own?.get === undefined) return
  const fresh = require('node:fs').createReadStream
  Object.defineProperty(process, 'stdin', {
    configurable: true,
    enumerable: true,
    get() {
      const stream = fresh(null, { fd: 0, autoClose: false })
      Object.defineProperty(process, 'stdin', { configurable: true, enumerable: true, get: () => stream })
      return stream
    },
  })
}

function evaluate(source, filename) {
  const options = { filename, importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER }
  try {
    return {
      isPromise: false,
      value: new vm.Script(source, options).runInThisContext({ breakOnSigint: false }),
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    const imported = withoutImports(source)
    if (imported === null && !/\bawait\b/.test(source)) throw error
    const script = compiled(awaitable(imported ?? source), options)
    if (script === null) throw error
    return { isPromise: true, value: script.runInThisContext() }
  }
}

function compiled(source, options) {
  try {
    return new vm.Script(source, options)
  } catch {
    return null
  }
}

/**
 * Wraps a source with top-level awaits in an async function. Declarations at the start of a line become
 * assignments to globals on the same line, so that later runs see them. Destructuring and declarations of
 * several names stay local.
 */
function awaitable(source) {
  const body = source
    .split('\n')
    .map((line) => line.replace(/^(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=(?!=)/, 'globalThis.$1 ='))
    .map((line) =>
      line.replace(/^(async\s+function\*?|function\*?|class)\s+([A-Za-z_$][\w$]*)/, 'globalThis.$2 = $1 $2'),
    )
    .join('\n')
  return `(async () => { ${body}\n})()`
}

module.exports = { serve }
