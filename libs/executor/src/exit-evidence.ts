/** What a backend says of a program's end, made safe to show and to store: impossible figures become null. */
import type { Exit, Usage } from '@cofferdam/contract'

/** Returns the exit with impossible values removed; `wallMs` is what we measured ourselves. */
export function checkedExit({ serviceExecutionTime, ...exit }: Exit, wallMs: number): Exit {
  const serviceTime = amount(serviceExecutionTime ?? null)
  const signal =
    typeof exit.signal === 'string' && /^SIG[A-Z0-9+-]{1,12}$/.test(exit.signal) ? exit.signal : null
  return {
    ...exit,
    // A process exits or is killed; the signal is the stronger statement.
    exitCode: signal === null ? count(exit.exitCode) : null,
    signal,
    oomKills: count(exit.oomKills) ?? 0,
    usage: checkedUsage(exit.usage, wallMs),
    ...(serviceTime === null ? {} : { serviceExecutionTime: serviceTime }),
  }
}

function checkedUsage(usage: Usage, wallMs: number): Usage {
  return {
    cpu_ms: amount(usage.cpu_ms),
    peak_memory_bytes: count(usage.peak_memory_bytes),
    read_bytes: count(usage.read_bytes),
    write_bytes: count(usage.write_bytes),
    pids_peak: count(usage.pids_peak),
    disk_bytes: count(usage.disk_bytes),
    wall_ms: amount(usage.wall_ms) ?? wallMs,
  }
}

const amount = (value: number | null): number | null =>
  value !== null && Number.isFinite(value) && value >= 0 ? value : null

const count = (value: number | null): number | null =>
  value !== null && Number.isSafeInteger(value) && value >= 0 ? value : null
