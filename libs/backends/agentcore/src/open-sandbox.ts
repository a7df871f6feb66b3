/** Opens a sandbox: a session for one execution, or a turn in a kept session. Either may be a warm one. */
import { CofferdamError, type Sandbox, type SandboxSpec } from '@cofferdam/contract'
import type { BackendDeps } from '@cofferdam/sandbox/backend'
import { sessionLimits, takeTurn } from '@cofferdam/backend-remote'
import type { AgentcoreConfig } from './config.ts'
import type { ForgottenSessions } from './forgotten-sessions.ts'
import { createKeeper } from './kept-session.ts'
import { openSession, type OpenParts } from './open-session.ts'
import { AgentcoreSandbox, type SandboxParts } from './sandbox.ts'
import { jobLifeMs, LIFE_MS } from './session-life.ts'
import { ownedName } from './session-name.ts'
import { traceParentOf } from './trace-parent.ts'
import type { Waited, WarmSessions } from './warm-sessions.ts'

export interface SandboxOpenerParts extends OpenParts {
  name: string
  settings: AgentcoreConfig
  deps: Pick<BackendDeps, 'sessions' | 'warm'>
  warm: WarmSessions
  forgotten: ForgottenSessions | null
}

/** Opens a sandbox for an execution. Throws what `Backend.open` throws. */
export type SandboxOpener = (spec: SandboxSpec, interpreter: string, signal: AbortSignal) => Promise<Sandbox>

export function createSandboxOpener(parts: SandboxOpenerParts): SandboxOpener {
  const { name, settings, deps, warm, service } = parts

  /** Null unless the sandbox is this worker's, because each worker has its own warm sessions. */
  const takeWaiting = async (
    spec: SandboxSpec,
    interpreter: string,
    lastsUntilMs: number,
    signal: AbortSignal,
  ): Promise<Waited | null> =>
    spec.owner === deps.warm?.owner ? await warm.take(interpreter, lastsUntilMs, signal) : null

  async function openJob(spec: SandboxSpec, interpreter: string, signal: AbortSignal): Promise<Sandbox> {
    const lifeMs = jobLifeMs(spec)
    const waited = await takeWaiting(spec, interpreter, Date.now() + lifeMs, signal)
    const wish = {
      interpreter,
      name: ownedName(settings.session_prefix, spec),
      seconds: Math.ceil(Math.min(lifeMs, LIFE_MS.most) / 1000),
      // Includes the sandbox's ID: an attempt may open a second sandbox, and the old token would return the
      // ended session.
      token: [spec.executionId, spec.attempt, spec.sandboxId],
      traceParent: traceParentOf(spec),
    }
    const session = waited?.session ?? (await openSession(parts, wish, signal))
    const end = async (): Promise<void> => void (await service.stop(session.id))
    if (signal.aborted) {
      await end()
      signal.throwIfAborted()
    }
    return sandboxOf(spec, { session, kept: null, warm: waited !== null, revoked: null, end })
  }

  async function openTurn(spec: SandboxSpec, interpreter: string, signal: AbortSignal): Promise<Sandbox> {
    if (deps.sessions === undefined)
      throw new CofferdamError('capability_missing', `${name} keeps no sessions.`)
    let waited = null as Waited | null
    const keeper = createKeeper(
      {
        ...parts,
        registry: deps.sessions,
        backend: name,
        limits: sessionLimits(deps),
        prefix: settings.session_prefix,
        lifeMs: settings.kept_life_ms,
        takeWaiting: async (...until) => (waited = await takeWaiting(spec, interpreter, ...until)),
      },
      interpreter,
    )
    const turn = await takeTurn(keeper, spec, signal)
    if (waited !== null) parts.forgotten?.watch(waited)
    return sandboxOf(spec, {
      session: turn.held,
      kept: { id: turn.entry.sessionId, fresh: turn.isFresh },
      warm: waited !== null,
      revoked: turn.revoked,
      end: turn.end,
    })
  }

  function sandboxOf(
    spec: SandboxSpec,
    turn: Pick<SandboxParts, 'session' | 'kept' | 'warm' | 'revoked' | 'end'>,
  ): Sandbox {
    const { interpreter, session } = turn.session.id
    const ref = { backend: name, id: spec.sandboxId, handle: { interpreter, session }, vendorRef: session }
    const { node, call_max_ms: callMaxMs } = settings
    return new AgentcoreSandbox(spec, { ...turn, ref, node, callMaxMs })
  }

  return async (spec, interpreter, signal) =>
    await (spec.reuse === 'session' ? openTurn : openJob)(spec, interpreter, signal)
}
