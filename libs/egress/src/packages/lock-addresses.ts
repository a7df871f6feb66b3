/** Tarball addresses of yarn's and pnpm's lock files, which neither moves to the registry that it is given. */
import { PACKAGE_HOST } from './create-package-proxy.ts'

/** Whole addresses, each read once: a search from every `http` of a hostile file to its end would take the worker for hours. */
const ADDRESS = /\bhttps?:\/\/[^\s"'#,}]+/gi

/**
 * The lock file with the tarballs of its registries at the package proxy, and everything else as it is: its digests, and what
 * comes from other places (git hosts, addresses written in package.json).
 */
export const redirectLock = (text: string): string => text.replaceAll(ADDRESS, redirected)

/** `…/name/-/file.tgz`, as every registry has it, behind whatever path a registry has of its own. */
function redirected(address: string): string {
  const [, , , ...parts] = address.split('/')
  const dash = parts.indexOf('-', 1)
  const [scope = '', name = '', file = ''] = [parts[dash - 2], parts[dash - 1], parts[dash + 1]]
  const end = file.toLowerCase().lastIndexOf('.tgz')
  if (dash === -1 || end < 1 || !isName(name)) return address
  const path = /^@.+$/.test(scope) && !name.startsWith('@') ? `${scope}/${name}` : name
  const rest = [file.slice(end + '.tgz'.length), ...parts.slice(dash + 2)].join('/')
  return `http://${PACKAGE_HOST}/npm/${path}/-/${file.slice(0, end)}.tgz${rest}`
}

/** Of one part of the path: `name` or `@scope%2fname`. */
function isName(part: string): boolean {
  const scopeEnd = part.startsWith('@') ? part.toLowerCase().lastIndexOf('%2f') : -1
  const name = scopeEnd > 1 ? part.slice(scopeEnd + '%2f'.length) : part
  return name !== '' && !name.includes('@')
}
