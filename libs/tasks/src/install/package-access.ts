/** How an install reaches packages. The executor implements it over the package proxy of an execution. */
import type { InstallReport } from '@cofferdam/contract'

export type PackageRegistry = 'pypi' | 'npm'

export interface PackageAccess {
  /** Null when packages of the registry can be fetched. Otherwise the reason, as text for the caller. */
  unavailable(registry: PackageRegistry): string | null
  /** Variables that point pip, npm, yarn and pnpm to the package proxy. */
  environment(): Readonly<Record<string, string>>
  /** The text of a lock file whose tarball addresses point to the package proxy. */
  redirectLock(text: string): string
  /** What the proxy has seen so far. */
  seen(): PackagesSeen
}

export interface PackagesSeen extends Pick<InstallReport, 'packages' | 'refused'> {
  /** Packages of which the tenant's rules hid some versions, each with its rule. */
  narrowed: readonly { name: string; rule: string }[]
  /** Failures of the package mirror. */
  mirrorFailures: readonly string[]
  /** Every connection that was refused. `rule` names the check that refused it. */
  refusals: readonly { target: string; rule: string; reason: string }[]
}

/** The value for an execution without a package proxy: nothing was seen. */
export const NO_PACKAGES: PackagesSeen = {
  packages: [],
  refused: [],
  narrowed: [],
  mirrorFailures: [],
  refusals: [],
}
