/** The two patches for custom resources: JSON Merge Patch (RFC 7386) and JSON Patch (RFC 6902). */

/** A patch that cannot be applied. */
export class BadPatch extends Error {}

type Json = unknown
interface Operation {
  op?: unknown
  path?: unknown
  from?: unknown
  value?: Json
}

/** RFC 7386. */
export function mergePatch(target: Json, patch: Json): Json {
  if (!isObject(patch)) return patch
  const merged: Record<string, Json> = isObject(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key]
    else merged[key] = mergePatch(merged[key], value)
  }
  return merged
}

/** RFC 6902. Throws BadPatch, also if a `test` fails. */
export function jsonPatch(target: Json, patch: Json): Json {
  if (!Array.isArray(patch)) throw new BadPatch('json patch: the body must be an array of operations')
  const root = { '': structuredClone(target) }
  for (const given of patch) {
    const { op, path, from, value } = given as Operation
    if (op === 'add') put(root, path, structuredClone(value), true)
    else if (op === 'replace') put(root, path, structuredClone(value), false)
    else if (op === 'remove') take(root, path)
    else if (op === 'move') put(root, path, take(root, from), true)
    else if (op === 'copy') put(root, path, structuredClone(look(root, from)), true)
    else if (op === 'test') {
      if (!isSame(look(root, path), value))
        throw new BadPatch(`testing value ${String(path)} failed: test failed`)
    } else throw new BadPatch(`Unexpected kind: ${String(op)}`)
  }
  return root['']
}

function put(root: Json, path: unknown, value: Json, isNew: boolean): void {
  const { parent, key } = placeOf(root, path)
  if (Array.isArray(parent)) {
    const at =
      key === '-' && isNew ? parent.length : indexIn(parent, key, isNew ? parent.length : parent.length - 1)
    parent.splice(at, isNew ? 0 : 1, value)
    return
  }
  if (!isNew && !Object.hasOwn(parent, key)) throw missing(path)
  parent[key] = value
}

function take(root: Json, path: unknown): Json {
  const { parent, key } = placeOf(root, path)
  if (Array.isArray(parent)) return parent.splice(indexIn(parent, key, parent.length - 1), 1)[0]
  if (!Object.hasOwn(parent, key)) throw missing(path)
  const value = parent[key]
  delete parent[key]
  return value
}

function look(root: Json, path: unknown): Json {
  const { parent, key } = placeOf(root, path)
  if (Array.isArray(parent)) return parent[indexIn(parent, key, parent.length - 1)]
  if (!Object.hasOwn(parent, key)) throw missing(path)
  return parent[key]
}

/** Container and key of a pointer's target (RFC 6901). The root has the empty key. */
function placeOf(root: Json, path: unknown): { parent: Json[] | Record<string, Json>; key: string } {
  if (typeof path !== 'string' || !/^(\/.*)?$/.test(path)) throw missing(path)
  const keys = path.split('/').map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  const key = keys.pop() ?? ''
  let parent: Json = root
  for (const step of keys) {
    if (Array.isArray(parent)) parent = parent[indexIn(parent, step, parent.length - 1)]
    else if (isObject(parent) && Object.hasOwn(parent, step)) parent = parent[step]
    else throw missing(path)
  }
  if (!Array.isArray(parent) && !isObject(parent)) throw missing(path)
  return { parent, key }
}

function indexIn(list: Json[], key: string, max: number): number {
  const index = /^(0|[1-9]\d*)$/.test(key) ? Number(key) : -1
  if (index < 0 || index > max) throw new BadPatch(`Unable to access invalid index: ${key}`)
  return index
}

const missing = (path: unknown): BadPatch => new BadPatch(`the path does not exist: ${String(path)}`)

const isObject = (value: Json): value is Record<string, Json> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Deep equality in any order of members. */
function isSame(one: Json, other: Json): boolean {
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((item, n) => isSame(item, other[n]))
  if (!isObject(one) || !isObject(other)) return one === other
  const keys = Object.keys(one)
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && isSame(one[key], other[key]))
  )
}
