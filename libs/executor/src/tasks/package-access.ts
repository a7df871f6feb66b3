/** What an install needs to know of the package proxy. */
import type { InstallReport } from '@cofferdam/contract'
import { packageEnvironment, redirectLock, type Egress, type ExecutionEgress } from '@cofferdam/egress'

export type PackageRegistry = 'pypi' | 'npm'

export interface PackageAccess {
  /** Null when packages of the registry can be fetched; else why not, in words for the caller. */
  unavailable(registry: PackageRegistry): string | null
  /** Variables that lead pip, npm, yarn and pnpm to the package proxy. */
  environment(): Readonly<Record<string, string>>
  /** A lock file with the tarballs of its registries at the package proxy. */
  redirectLock(text: string): string
  /** What went through it so far. */
  seen(): Pick<InstallReport, 'packages' | 'refused'>
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
    }),
  }
}
