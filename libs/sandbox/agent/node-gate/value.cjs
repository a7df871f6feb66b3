'use strict'
/**
 * The value of a program or run on the control pipe: `V`, a length, and JSON text. A program's value is
 * module.exports or the default export if that is plain data, read at exit.
 */
const fs = require('node:fs')
const { isModuleNamespaceObject, isProxy } = require('node:util/types')

const CONTROL_OUT = 199
const VALUE_MAX = 32 * 1024
const DEPTH_MAX = 64

/** Sends the value if it is plain data within the limits. */
function sendValue(value) {
  const text = value === undefined ? undefined : encode(value, DEPTH_MAX)
  const bytes = Buffer.from(text ?? '')
  if (bytes.length === 0 || bytes.length > VALUE_MAX) return
  const head = Buffer.alloc(5)
  head.write('V')
  head.writeUInt32LE(bytes.length, 1)
  fs.writeSync(CONTROL_OUT, Buffer.concat([head, bytes]))
}

function reportValueAtExit(entry, source) {
  const filename = require('node:path').resolve(entry)
  const pipe = fs.fstatSync(CONTROL_OUT).ino
  process.once('exit', (code) => {
    if (code !== 0) return
    try {
      const value = valueOf(filename, source)
      if (fs.fstatSync(CONTROL_OUT).ino === pipe) sendValue(value)
    } catch {
      // No value: the program took the pipe, or the module cannot be read.
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
  // An ES module: require() returns the namespace that is already evaluated, and throws for top-level await.
  // Node first tried it as CommonJS, and that empty attempt is cached. A program that rewrote its own file
  // has no value.
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

module.exports = { reportValueAtExit, sendValue }
