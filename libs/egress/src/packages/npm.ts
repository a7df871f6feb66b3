/** `/npm/…`: the npm registry protocol (packuments and tarballs) over the one configured mirror. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { MirrorFailure } from './mirror.ts'
import { PackageRefused, sendDocument, sendFile } from './package-answer.ts'
import { npmName } from './package-rules.ts'
import { cutPackument, tarballName, type Packument } from './packument.ts'
import { keepRecent } from './recent.ts'
import type { RegistryDeps, ServeRegistry } from './registry-deps.ts'

const ABBREVIATED = 'application/vnd.npm.install-v1+json'

/** Answers requests below `/npm/`. */
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
    const [first = '', ...others] = parts
    // A scoped name comes as one escaped part or as two.
    const isSplit = first.startsWith('@') && !first.includes('/')
    const name = npmName(isSplit ? `${first}/${others[0] ?? ''}` : first)
    const rest = isSplit ? others.slice(1) : others
    if (name === null || first === '-')
      throw new MirrorFailure(404, 'the package proxy serves packuments and tarballs only')
    if (!rules.allowsName(name))
      throw new PackageRefused(name, `package ${name} is not on the tenant's allow-list`)
    if (rest.length === 0) await sendPackument(request, response, name)
    else if (rest.length === 2 && rest[0] === '-')
      await sendTarball(request, response, name, rest[1] ?? '', signal)
    else throw new MirrorFailure(404, 'the package proxy serves packuments and tarballs only')
  }
}
