/** Why the strongest backend that works is no stronger, and what to install when none is safe. */
import { isAtLeast } from '@cofferdam/contract'
import type { BackendFinding } from './local-backends.ts'

/** The strongest backend that works and needs no explicit policy; null when there is none. */
export const bestOf = (findings: readonly BackendFinding[]): BackendFinding | null =>
  findings.find((finding) => finding.probe.ok && finding.safe) ?? null

/** One line per backend of this host that would be stronger than `used` but cannot run; doctor's list has the remote ones. */
export function whyNotStronger(findings: readonly BackendFinding[], used: BackendFinding): string[] {
  return findings.flatMap(({ name, isolation, remote, probe }) =>
    probe.ok || remote || isolation === used.isolation || !isAtLeast(isolation, used.isolation)
      ? []
      : [`${name} (${isolation}): ${probe.why}\n      → ${probe.fix}`],
  )
}

/** What to install where no safe backend works. */
export function howToGetOne(findings: readonly BackendFinding[], platform: NodeJS.Platform): string[] {
  const reasons = findings.flatMap(({ name, safe, remote, probe }) =>
    probe.ok || remote || !safe ? [] : [`  ${name}: ${probe.why}\n    → ${probe.fix}`],
  )
  const install =
    platform === 'linux'
      ? [
          '  Debian, Ubuntu:  sudo apt-get install python3 bubblewrap',
          '  Fedora:          sudo dnf install python3 bubblewrap',
          '  or Docker:       https://docs.docker.com/engine/install/, then npm run image',
        ]
      : platform === 'darwin'
        ? [
            '  macOS:           install Docker Desktop or colima (brew install colima docker), then npm run image',
          ]
        : ['  install Docker, then npm run image (on Windows: inside WSL 2)']
  return [
    'No safe backend works on this machine, and an unsafe one is never taken silently:',
    ...reasons,
    'Install one of these:',
    ...install,
  ]
}
