/** The first call of a session installs our cell; only one that proves it is used. */
import { CofferdamError } from '@cofferdam/contract'
import { newNonce } from './cell-requests.ts'
import { createCellSession, type CellSession } from './cell-session.ts'
import { preamble, readyMarker } from './cell-source.ts'
import { isConflict, isGone, isThrottled } from './classify-failure.ts'
import type { ToolResult } from './consume-stream.ts'
import type { DataPlane, SessionPlace } from './data-plane.ts'
import { patiently } from './patiently.ts'

/** Some 2.4 s: a service that is behind itself knows a session 1 to 2 s after it said that it was started. */
const TRIES_MAX = 5
const isForNow = (error: unknown): boolean => isThrottled(error) || isGone(error) || isConflict(error)

/** Proves that the session is ready: no exit code but 0, no error, and the marker as the last line. Throws otherwise. */
export async function proveReady(
  service: DataPlane,
  id: SessionPlace,
  signal: AbortSignal,
): Promise<CellSession> {
  let nonce = ''
  const install = async (): Promise<ToolResult> => {
    // A stream that was throttled does not tell whether the last one was installed.
    nonce = newNonce()
    return await service.call(id, 'executeCode', { code: preamble(nonce), language: 'python' }, signal)
  }
  const result = await patiently(install, signal, TRIES_MAX, isForNow)
  const [base = '', last] = result.stdout.trimEnd().split(/\r?\n/).slice(-2)
  // Without a code the marker proves more than a code would.
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

/** Absolute, and nothing that a shell would read otherwise. */
const isPlainPath = (path: string): boolean => /^\/[\w./-]{1,500}$/.test(path)

const lastLine = ({ stderr, exitCode }: ToolResult): string =>
  stderr.trimEnd().split('\n').at(-1)?.slice(0, 200) || `exit code ${exitCode}, without its marker`
