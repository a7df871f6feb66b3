/** Points the tarball addresses of yarn's and pnpm's lock files to the package proxy. */
import { PACKAGE_HOST } from './create-package-proxy.ts'

/** Matches whole addresses, each once. Searching a hostile file from every `http` could take hours. */
const ADDRESS = /\bhttps?:\/\/[^\s"'#,}]+/gi

/**
 * Returns the lock file with the addresses of registry tarballs changed to the package proxy. Digests, git
 * hosts and addresses that package.json names stay unchanged.
 */
export const redirectLock = (text: string): string => text.replaceAll(ADDRESS, redirected)

/** Changes `…/name/-/file.tgz`, the form of every registry. Any path may stand before the name. */
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

/** Whether a part of the path is `name` or `@scope%2fname`. */
function isName(part: string): boolean {
  const scopeEnd = part.startsWith('@') ? part.toLowerCase().lastIndexOf('%2f') : -1
  const name = scopeEnd > 1 ? part.slice(scopeEnd + '%2f'.length) : part
  return name !== '' && !name.includes('@')
}
