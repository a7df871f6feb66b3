/**
 * The package proxy of one execution, at a host that exists only inside its HTTP proxy. It can be reached
 * with any network of the execution. The tenant's rules decide what it fetches, only from the configured
 * mirrors.
 */
import type { TenantPolicy } from '@cofferdam/contract'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { EgressConfig } from '../config.ts'
import type { Ledger } from '../ledger.ts'
import { Refused } from '../refusal.ts'
import { createMirror, MirrorFailure, type Mirror } from './mirror.ts'
import { createNpm } from './npm.ts'
import { PackageRefused, sendFailure } from './package-answer.ts'
import { packageRules, type Registry } from './package-rules.ts'
import { createPypi } from './pypi.ts'
import type { ServeRegistry } from './registry-deps.ts'

export const PACKAGE_HOST = 'packages.cofferdam.internal'

/** Answers a request to the package host. Rejects with `Refused` when this execution may not install. */
export type PackageProxy = (request: IncomingMessage, response: ServerResponse, path: string) => Promise<void>

/** The worker's mirrors, each with its own bound on concurrent documents. */
export type Mirrors = Record<Registry, Mirror | null>

export interface PackageProxyOptions {
  mirrors: Mirrors
  /** Concurrent requests of one execution. They can be pipelined, so connections do not bound them. */
  maxRequests: number
  rules: TenantPolicy['packages'] | null
  ledger: Ledger
  signal: AbortSignal
}

const CREATE = { pypi: createPypi, npm: createNpm } as const

export function createMirrors(config: EgressConfig): Mirrors {
  const mirror = (registry: Registry): Mirror | null => {
    const url = config.package_mirrors[registry]
    const fileHosts = config.package_file_hosts
    return url === null ? null : createMirror({ url, fileHosts, idleMs: config.idle_timeout_ms })
  }
  return { pypi: mirror('pypi'), npm: mirror('npm') }
}

export function createPackageProxy({
  mirrors,
  maxRequests,
  rules,
  ledger,
  signal,
}: PackageProxyOptions): PackageProxy {
  const serve = (registry: Registry): ServeRegistry | null => {
    const shared = mirrors[registry]
    if (shared === null || rules === null) return null
    const mirror = recorded(shared, ledger)
    const base = `http://${PACKAGE_HOST}/${registry}`
    return CREATE[registry]({ mirror, rules: packageRules(registry, rules[registry]), ledger, base, signal })
  }
  let active = 0
  const registries = { pypi: serve('pypi'), npm: serve('npm') }

  return async (request, response, path) => {
    if (rules === null) throw new Refused(PACKAGE_HOST, 'packages', 'this execution may not install packages')
    if (ledger.isExhausted) throw new Refused(PACKAGE_HOST, 'byte_limit', 'the execution has spent its bytes')
    if (active >= maxRequests)
      throw new Refused(PACKAGE_HOST, 'connection_limit', `${active} requests are under way already`)
    active += 1
    const given = new AbortController()
    response.once('close', () => given.abort())
    try {
      if (request.method !== 'GET' && request.method !== 'HEAD')
        throw new MirrorFailure(404, 'the package proxy answers GET and HEAD only')
      const [registry = '', ...parts] = pathParts(path)
      if (registry !== 'pypi' && registry !== 'npm')
        throw new MirrorFailure(404, 'the package proxy serves /pypi/ and /npm/')
      const served = registries[registry]
      if (served === null)
        throw new PackageRefused(named(parts), `no ${registry} mirror is configured on this worker`)
      await served(request, response, parts, AbortSignal.any([signal, given.signal]))
    } catch (error) {
      sendFailure(response, error, ledger)
    } finally {
      active -= 1
    }
  }
}

/** Wraps the mirror: the ledger records every host that it reaches, as if the program had reached it. */
function recorded(mirror: Mirror, ledger: Ledger): Mirror {
  const record = (...urls: URL[]): void => {
    for (const { protocol, hostname, port } of urls)
      ledger.reached(`${hostname}:${port === '' ? (protocol === 'https:' ? 443 : 80) : port}`)
  }
  return {
    ...mirror,
    async document(url, accept, signal) {
      const found = await mirror.document(url, accept, signal)
      record(url, found.url)
      return found
    },
    async file(url, signal) {
      const found = await mirror.file(url, signal)
      record(url, found.url)
      return found
    },
  }
}

/** The decoded, non-empty parts of a path. A part that cannot be decoded matches no name. */
function pathParts(path: string): string[] {
  return (path.split('?')[0] ?? '')
    .split('/')
    .filter((part) => part !== '')
    .map((part) => {
      try {
        return decodeURIComponent(part)
      } catch {
        return '\0'
      }
    })
}

/** The package that a path names, for the ledger. */
function named([first = '', second = '']: readonly string[]): string {
  const isPage = first === 'simple' || first === 'files'
  return isPage ? second : first.startsWith('@') && !first.includes('/') ? `${first}/${second}` : first
}
