/** `/npm/…`: the npm registry protocol (packuments and tarballs) over the one configured mirror. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { MirrorFailure } from './mirror.ts'
import { PackageRefused, sendDocument, sendFile } from './package-answer.ts'
import { npmName } from './package-rules.ts'
import { cutPackument, tarballName, type Packument } from './packument.ts'
import { keepRecent } from './recent.ts'
import type { RegistryDeps, ServeRegistry } from './registry-deps.ts'

const ABBREVIATED = 'application/vnd.npm.install-v1+json'

export function createNpm({ mirror, rules, ledger, base, signal: execution }: RegistryDeps): ServeRegistry {
  const escaped = (name: string): string => name.replace('/', '%2f')
  const read = (accept: string) =>
    keepRecent<Packument>(async (name) => {
      const { text, url } = await mirror.document(mirror.at(escaped(name)), accept, execution)
      const link = (version: string): string => `${base}/${name}/-/${tarballName(name, version)}`
      const value = cutPackument(name, text, url, (version) => rules.allowsVersion(name, version), link)
      return { value, bytes: value.json.length }
    })
  const abbreviated = read(`${ABBREVIATED}, application/json;q=0.5`)
  const full = read('application/json')

  const sendPackument = async (
    request: IncomingMessage,
    response: ServerResponse,
    name: string,
  ): Promise<void> => {
    const isAbbreviated = (request.headers.accept ?? '').includes(ABBREVIATED)
    const packument = await (isAbbreviated ? abbreviated : full)(name)
    if (packument.tarballs.size === 0 && packument.allVersions.length > 0)
      throw new PackageRefused(
        name,
        `no version of ${name} on the mirror is within the tenant's rule ${rules.describe(name)}`,
      )
    if (packument.allVersions.some((version) => !rules.allowsVersion(name, version)))
      ledger.narrowedPackage(name, rules.describe(name))
    sendDocument(response, isAbbreviated ? ABBREVIATED : 'application/json', packument.json)
  }

  const sendTarball = async (
    request: IncomingMessage,
    response: ServerResponse,
    name: string,
    filename: string,
    signal: AbortSignal,
  ): Promise<void> => {
    const packument = await abbreviated(name)
    const tarball = packument.tarballs.get(filename)
    if (tarball === undefined) {
      const refused = packument.allVersions.find((version) => tarballName(name, version) === filename)
      if (refused === undefined) throw new MirrorFailure(404, `${name} has no such file`)
      throw new PackageRefused(
        name,
        `version ${refused} of ${name} is outside of the tenant's rule ${rules.describe(name)}`,
      )
    }
    await sendFile(request, response, await mirror.file(tarball.url, signal), ledger)
    if (request.method === 'GET') ledger.installedPackage(name, tarball.version)
  }

  return async (request, response, parts, signal) => {
    const asked = readPath(parts)
    if (asked === null) throw new MirrorFailure(404, 'the package proxy serves packuments and tarballs only')
    const { name, filename } = asked
    if (!rules.allowsName(name))
      throw new PackageRefused(name, `package ${name} is not on the tenant's allow-list`)
    if (filename === null) await sendPackument(request, response, name)
    else await sendTarball(request, response, name, filename, signal)
  }
}

/**
 * Reads `<name>` or `<name>/-/<file>`. A scoped name is one escaped part or two parts. Anything before the
 * name of a tarball is ignored. npm moves the addresses of lock files to our registry and keeps their path.
 * npm before 11 does this even to our own addresses, which then have our path twice.
 */
function readPath(parts: readonly string[]): { name: string; filename: string | null } | null {
  const dash = parts.lastIndexOf('-')
  const isTarball = dash > 0 && dash === parts.length - 2
  const before = isTarball ? parts.slice(0, dash) : parts
  const [last = '', scope = ''] = before.toReversed()
  const isSplit = scope.startsWith('@') && !scope.includes('/') && !last.includes('/')
  if (!isTarball && before.length > (isSplit ? 2 : 1)) return null
  const name = last === '-' ? null : npmName(isSplit ? `${scope}/${last}` : last)
  return name === null ? null : { name, filename: isTarball ? (parts.at(-1) ?? '') : null }
}
