/** A guest says more than a backend vouches for. */
import type { Capabilities, Usage } from '@cofferdam/contract'

/** Usage with null in the fields that the backend does not measure well enough to declare them. */
export function onlyMeasured(usage: Usage, measures: Capabilities['measures']): Usage {
  const kept = (field: keyof Usage): number | null => (measures.includes(field) ? usage[field] : null)
  return {
    cpu_ms: kept('cpu_ms'),
    peak_memory_bytes: kept('peak_memory_bytes'),
    read_bytes: kept('read_bytes'),
    write_bytes: kept('write_bytes'),
    pids_peak: kept('pids_peak'),
    disk_bytes: kept('disk_bytes'),
    wall_ms: usage.wall_ms,
  }
}
