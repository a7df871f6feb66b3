/** Puts the request's files into the sandbox. The last thing that can fail without anything of the user having run. */
import {
  fileBytes,
  isCofferdamError,
  type ExecutionRequest,
  type ProgramFile,
  type Sandbox,
  unlessAborted,
} from '@cofferdam/contract'
import { withDeadline } from './with-deadline.ts'
import type { Clock } from './clock.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'

/** 16 MiB of files take well under a second on a local host; a remote API gets time for a retry. */
const WRITE_TIMEOUT_MS = 30_000

/** Throws a provisioning failure, or the signal's reason. */
export async function prepareSandbox(
  clock: Clock,
  sandbox: Sandbox,
  request: ExecutionRequest,
  signal: AbortSignal,
  /** What an earlier attempt left: it stands in front of the request's own files. */
  restored: readonly ProgramFile[] = [],
): Promise<void> {
  signal.throwIfAborted()
  const newer = new Set(restored.map(({ path }) => path))
  const own = (request.files ?? []).filter(({ path }) => !newer.has(path))
  const files = own.map((file) => ({
    path: file.path,
    bytes: fileBytes(file),
    ...(file.executable === undefined ? {} : { executable: file.executable }),
  }))
  if (files.length + restored.length === 0) return
  const timeout = new Error(`it took longer than ${WRITE_TIMEOUT_MS} ms`)
  using bound = withDeadline(clock, signal, WRITE_TIMEOUT_MS, timeout)
  try {
    if (files.length > 0) await unlessAborted(sandbox.write(files), bound.signal)
    if (restored.length === 0) return
    // Looked for in between, so that both stay within the bounds of one write: files wait for the next request.
    if (files.length > 0) await unlessAborted(sandbox.list(['*'], 1), bound.signal)
    await unlessAborted(sandbox.write(restored), bound.signal)
  } catch (error) {
    signal.throwIfAborted()
    const why = isCofferdamError(error) || error === timeout ? `: ${(error as Error).message}` : ''
    throw new ProvisioningFailure(
      'prepare_failed',
      `The files could not be written into the sandbox${why}.`,
      { cause: error },
    )
  }
}
