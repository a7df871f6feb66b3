/** The first call of a session installs our cell. A session is used only after its cell has answered. */
import { CofferdamError } from '@cofferdam/contract'
import { newNonce } from './cell-requests.ts'
import { createCellSession, type CellSession } from './cell-session.ts'
import { preamble, readyMarker } from './cell-source.ts'
import { isConflict, isGone, isThrottled } from './classify-failure.ts'
import type { ToolResult } from './consume-stream.ts'
import type { DataPlane, SessionPlace } from './data-plane.ts'
import { ATTEMPTS, retryThrottled } from './retry-calls.ts'

const isForNow = (error: unknown): boolean => isThrottled(error) || isGone(error) || isConflict(error)

/** Ready means no exit code but 0, no error, and the marker as the last line. Throws otherwise. */
export async function proveReady(
  service: DataPlane,
  id: SessionPlace,
  signal: AbortSignal,
): Promise<CellSession> {
  let nonce = ''
  const install = async (): Promise<ToolResult> => {
    // A throttled stream does not tell whether the previous preamble was installed.
    nonce = newNonce()
    return await service.call(id, 'executeCode', { code: preamble(nonce), language: 'python' }, signal)
  }
  const result = await retryThrottled(install, signal, ATTEMPTS.firstCall, isForNow)
  const [base = '', last] = result.stdout.trimEnd().split(/\r?\n/).slice(-2)
  // A missing exit code is accepted: the marker proves more than the code.
  const isFailed = (result.exitCode ?? 0) !== 0 || result.isError
  if (isFailed || last !== readyMarker(nonce) || !isPlainPath(base))
    throw new CofferdamError(
      'sandbox_open_failed',
      `AgentCore: the session is not ready: ${lastLine(result)}`,
      {
        details: { reason: `readiness:${isFailed ? 'failed' : 'marker'}` },
      },
    )
  return createCellSession(service, id, base)
}

/** An absolute path without characters that a shell would interpret. */
const isPlainPath = (path: string): boolean => /^\/[\w./-]{1,500}$/.test(path)

const lastLine = ({ stderr, exitCode }: ToolResult): string =>
  stderr.trimEnd().split('\n').at(-1)?.slice(0, 200) || `exit code ${exitCode}, without its marker`
