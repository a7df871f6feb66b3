/** The way out of one execution: what it may reach, decided before anything is opened. */
import type { ExecutionRequest, Network, TenantPolicy } from '@cofferdam/contract'
import { narrowest, PACKAGE_HOST, type Egress, type ExecutionEgress } from '@cofferdam/egress'
import { ProvisioningFailure } from './provisioning-failure.ts'

export interface WayOut {
  /** What the sandbox must offer: a channel for connections, or nothing. */
  network: Network
  /** Null when there is none: the sandbox then has no proxy either. */
  egress: ExecutionEgress | null
}

/**
 * Narrows what the request asks by what the tenant may reach. An install has a way to the package proxy alone when it
 * asks for no network. Throws a provisioning failure: `policy_denied` for what the tenant may not, else
 * `capability_missing` on a worker without egress.
 */
export function openWayOut(
  egress: Egress | null,
  request: ExecutionRequest,
  tenant: TenantPolicy,
  signal: AbortSignal,
): WayOut {
  const installs = request.program.type === 'install'
  if (request.network === 'none' && !installs) return { network: 'none', egress: null }
  const narrowed = narrowest(request.network, tenant.network)
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
  }
}
