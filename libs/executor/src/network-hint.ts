/** Tells if the network caused a failure. Resolvers and package managers only print what was not found. */
import type { Network } from '@cofferdam/contract'
import { PACKAGE_HOST } from '@cofferdam/egress'
import { explainPackages, type PackagesSeen } from '@cofferdam/tasks'

/** Printed by glibc, musl, Node, curl, git, wget, Go and requests when no name server can be reached. */
const LOOKUP_FAILED =
  /Temporary failure in name resolution|Name or service not known|getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|Could not resolve host|unable to resolve host|Failed to resolve|dial tcp: lookup/
/** The only trace when `pip -q` cannot look up its index, and what Debian's pip prints if no index is set. */
const NO_INDEX = /\(from versions: none\)|externally-managed-environment/
const OF_PACKAGES =
  /\bpip\b|\bnpm (?:error|ERR!)|pypi\.org|files\.pythonhosted\.org|registry\.npmjs\.org|\byarn\b|\(from versions: none\)|externally-managed-environment/

/**
 * Sentences to add to a failure reason. Null when the network did not cause it. `printed` is the program's
 * stderr, and `seen` what the package proxy saw of it.
 */
export function networkHint(network: Network, printed: string, seen: PackagesSeen): string | null {
  if (seen.refused.length > 0 || seen.mirrorFailures.length > 0) return explainPackages(seen)
  if (!LOOKUP_FAILED.test(printed) && !(network === 'none' && NO_INDEX.test(printed))) {
    // If a package rule hides a version, pip and npm report it as missing.
    return /No matching distribution|ETARGET|notarget/.test(printed) && seen.narrowed.length > 0
      ? explainPackages(seen)
      : null
  }
  const packages = OF_PACKAGES.test(printed)
    ? ` For packages alone, which the tenant's rules must allow, ask for {"allow": ["${PACKAGE_HOST}"]}.`
    : ''
  if (network === 'none')
    return (
      'The execution has no network, so it can look up no name. Ask for one in the ' +
      `request: network "public" or {"allow": ["host"]}.${packages}`
    )
  return (
    'A name could not be looked up: programs reach hosts by the HTTP proxy that HTTP_PROXY ' +
    `and HTTPS_PROXY name, and by nothing else.${packages}`
  )
}
