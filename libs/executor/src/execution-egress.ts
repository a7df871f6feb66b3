/** Decides what one execution may reach, before anything is opened. */
import type { ExecutionRequest, Network, TenantPolicy } from '@cofferdam/contract'
import {
  narrowest,
  PACKAGE_HOST,
  packageEnvironment,
  redirectLock,
  type Egress,
  type ExecutionEgress,
} from '@cofferdam/egress'
import { refusePackages, type PackageAccess } from '@cofferdam/tasks'
import { ProvisioningFailure } from './provisioning-failure.ts'

export interface WayOut {
  /** What the sandbox must offer: a channel for connections, or nothing. */
  network: Network
  /** Null without a network. The sandbox then has no proxy either. */
  egress: ExecutionEgress | null
  /** Variables that point package managers to the package proxy. Variables of the request override them. */
  environment: Readonly<Record<string, string>>
}

/**
 * Whether a request asks for packages: an install, or an allow-list that names the package proxy. That entry
 * is checked against the tenant's package rules, not against the tenant's network.
 */
const asksForPackages = ({ program, network }: Pick<ExecutionRequest, 'program' | 'network'>): boolean =>
  program.type === 'install' || (typeof network === 'object' && network.allow.includes(PACKAGE_HOST))

/**
 * How a task reaches packages. Null on a worker without egress. If `execution` is null, nothing was fetched
 * yet: `seen` is empty and only `unavailable` is of use.
 */
export function packageAccess(
  egress: Egress | null,
  execution: ExecutionEgress | null,
): PackageAccess | null {
  if (egress === null) return null
  return {
    unavailable: (registry) =>
      egress.mirrors[registry] ? null : `no mirror is configured (egress.package_mirrors.${registry})`,
    environment: packageEnvironment,
    redirectLock,
    seen: () => ({
      packages: [...(execution?.installed ?? [])],
      refused: [...(execution?.refusedPackages ?? [])],
      narrowed: execution?.narrowedPackages ?? [],
      mirrorFailures: execution?.mirrorFailures ?? [],
      refusals: execution?.refusals ?? [],
    }),
  }
}

/** The network without the entry for packages. */
function beyondPackages(network: Network): Network {
  if (typeof network === 'string') return network
  const allow = network.allow.filter((entry) => entry !== PACKAGE_HOST)
  return allow.length === 0 ? 'none' : { allow }
}

/**
 * Narrows the network of the request to what the tenant may reach. A request for packages alone reaches only
 * the package proxy. Throws a provisioning failure: `policy_denied` for what the tenant may not reach,
 * `capability_missing` on a worker without egress. Throws TaskRefusal for packages that cannot be fetched
 * here.
 */
export function openWayOut(
  egress: Egress | null,
  request: ExecutionRequest,
  tenant: TenantPolicy,
  signal: AbortSignal,
): WayOut {
  const installs = asksForPackages(request)
  if (installs) refusePackages(request.program, tenant, packageAccess(egress, null))
  const asked = beyondPackages(request.network)
  if (asked === 'none' && !installs) return { network: 'none', egress: null, environment: {} }
  const narrowed = narrowest(asked, tenant.network)
  if (!narrowed.ok)
    throw new ProvisioningFailure(
      'network_denied',
      `The network that was asked for is not allowed: ${narrowed.entry}: ${narrowed.reason}.`,
      { ending: 'policy_denied' },
    )
  if (egress === null)
    throw new ProvisioningFailure('capability_missing', 'This worker offers no network to programs.')
  const { network } = narrowed
  return {
    network: network === 'none' ? { allow: [PACKAGE_HOST] } : network,
    egress: egress.open({ network, packages: tenant.packages, signal }),
    environment: packageVariables(egress, request, tenant, installs),
  }
}

/**
 * Empty for an install, whose task sets its own variables. With network `public`, only the registries that
 * the tenant's rules mention are pointed to the proxy.
 */
function packageVariables(
  { mirrors }: Egress,
  { program, network }: ExecutionRequest,
  { packages }: TenantPolicy,
  installs: boolean,
): Readonly<Record<string, string>> {
  if (program.type === 'install') return {}
  if (installs) return packageEnvironment()
  if (network !== 'public') return {}
  const allowed = (['pypi', 'npm'] as const).filter(
    (registry) => mirrors[registry] && packages[registry].length > 0,
  )
  return packageEnvironment(allowed)
}
