/**
 * What a program that failed should know of the network: resolvers and package managers only say that
 * something was not found.
 */
import type { Network } from '@cofferdam/contract'
import { PACKAGE_HOST } from '@cofferdam/egress'
import { explainPackages, type PackagesSeen } from '@cofferdam/tasks'

/** glibc, musl, Node, curl and git, wget, Go and requests, of a name that no server could be asked for. */
const LOOKUP_FAILED =
  /Temporary failure in name resolution|Name or service not known|getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|Could not resolve host|unable to resolve host|Failed to resolve|dial tcp: lookup/
/**
 * All that a quiet pip says when it could not look its index up, and what Debian's says where it was led to
 * none.
 */
const NO_INDEX = /\(from versions: none\)|externally-managed-environment/
const OF_PACKAGES =
  /\bpip\b|\bnpm (?:error|ERR!)|pypi\.org|files\.pythonhosted\.org|registry\.npmjs\.org|\byarn\b|\(from versions: none\)|externally-managed-environment/

/**
 * Sentences to add to why a program failed; null when the network has nothing to do with it. `printed` is
 * what it wrote to stderr, and `seen` what of packages went through its proxy.
 */
export function networkHint(network: Network, printed: string, seen: PackagesSeen): string | null {
  if (seen.refused.length > 0 || seen.mirrorFailures.length > 0) return explainPackages(seen)
  if (!LOOKUP_FAILED.test(printed) && !(network === 'none' && NO_INDEX.test(printed))) {
    // Versions that a rule left out are said to be missing, or taken for others.
    return /No matching distribution|ETARGET|notarget/.test(printed) && seen.narrowed.length > 0
      ? explainPackages(seen)
      : null
  }
  const packages = OF_PACKAGES.test(printed)
    ? ` For packages alone, which the tenant's rules must allow, ask for {"allow": ["${PACKAGE_HOST}"]}.`
    : ''
  if (network === 'none')
    return `The execution has no network, so it can look up no name. Ask for one in the request: network "public" or {"allow": ["host"]}.${packages}`
  return `A name could not be looked up: programs reach hosts by the HTTP proxy that HTTP_PROXY and HTTPS_PROXY name, and by nothing else.${packages}`
}
