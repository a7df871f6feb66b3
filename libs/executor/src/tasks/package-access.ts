/** What an install needs to know of the package proxy. */
import type { InstallReport } from '@cofferdam/contract'
import {
  packageEnvironment,
  redirectLock,
  type Egress,
  type ExecutionEgress,
  type Refusal,
} from '@cofferdam/egress'

export type PackageRegistry = 'pypi' | 'npm'

export interface PackageAccess {
  /** Null when packages of the registry can be fetched; else why not, in words for the caller. */
  unavailable(registry: PackageRegistry): string | null
  /** Variables that lead pip, npm, yarn and pnpm to the package proxy. */
  environment(): Readonly<Record<string, string>>
  /** A lock file with the tarballs of its registries at the package proxy. */
  redirectLock(text: string): string
  /** What went through it so far. */
  seen(): PackagesSeen
}

export interface PackagesSeen extends Pick<InstallReport, 'packages' | 'refused'> {
  /** Packages of which the tenant's rules left versions out, with those rules. */
  narrowed: readonly { name: string; rule: string }[]
  /** What went wrong with the mirror. */
  mirrorFailures: readonly string[]
  /** Every connection that was refused on the way. */
  refusals: readonly Refusal[]
}

/** What an execution without a way out has seen of packages. */
export const NOTHING_SEEN: PackagesSeen = {
  packages: [],
  refused: [],
  narrowed: [],
  mirrorFailures: [],
  refusals: [],
}

/** The access of one execution; before it is opened (`execution` null) only whether there is one. Null without egress. */
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
