/** Puts the request's files into the sandbox. The last thing that can fail without anything of the user having run. */
import { fileBytes, isCofferdamError, type ExecutionRequest, type Sandbox } from '@cofferdam/contract'
import { unlessAborted, withDeadline } from './abortable.ts'
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
): Promise<void> {
  signal.throwIfAborted()
  const files = (request.files ?? []).map((file) => ({
    path: file.path,
    bytes: fileBytes(file),
    ...(file.executable === undefined ? {} : { executable: file.executable }),
  }))
  if (files.length === 0) return
  const timeout = new Error(`it took longer than ${WRITE_TIMEOUT_MS} ms`)
  using bound = withDeadline(clock, signal, WRITE_TIMEOUT_MS, timeout)
  try {
    await unlessAborted(sandbox.write(files), bound.signal)
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
