/** How much of the worker's memory budget an execution uses: its limit, or little if it runs remotely. */
import { DEFAULT_LIMITS, REMOTE_HOST_MIB, type ExecutionRequest } from '@cofferdam/contract'
import type { Selectable } from './select-backend.ts'

const MiB = 1024 * 1024

/** Bytes. No backend is chosen yet, so the full memory limit counts unless every candidate is remote. */
export function hostMemory(
  { backends, order }: Selectable,
  request: Pick<ExecutionRequest, 'backend' | 'limits'>,
): number {
  const names = request.backend === 'auto' ? order : [request.backend]
  const isElsewhere =
    names.length > 0 && names.every((name) => backends.get(name)?.capabilities.remote === true)
  const limit = request.limits.memory_mib
  return (isElsewhere ? Math.min(limit, REMOTE_HOST_MIB) : limit) * MiB + largeArtifact(request)
}

/**
 * The worker holds an artifact twice: as frames and as a whole file. Counts only what exceeds the default
 * size limit.
 */
const largeArtifact = ({ limits }: Pick<ExecutionRequest, 'limits'>): number =>
  2 * Math.max(0, limits.artifact_bytes - DEFAULT_LIMITS.artifact_bytes)
