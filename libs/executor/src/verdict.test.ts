import { describe, expect, it } from 'vitest'
import { exitOf } from '../test/scripted-backend.ts'
import { decideEnding, type Evidence } from './verdict.ts'

const nothing: Evidence = {
  stop: null,
  softStopped: false,
  exit: null,
  lost: null,
  outputLimitPassed: false,
  errorLine: '',
}
const killed = { exitCode: null, signal: 'SIGKILL' } as const
const lost = { reason: 'sandbox_lost', oomKills: 0 }

describe('decideEnding', () => {
  it.each<[string, Partial<Evidence>, string, string | null]>([
    ['our hard timer fired', { stop: 'hard_deadline', softStopped: true }, 'hard_timeout', null],
    ['the output limit was passed while it ran', { stop: 'output_limit' }, 'output_limit', null],
    [
      'the output limit was passed at its end',
      { exit: exitOf(), outputLimitPassed: true },
      'output_limit',
      null,
    ],
    ['the caller cancelled and it ended', { stop: 'cancelled', exit: exitOf() }, 'cancelled', null],
    ['the caller cancelled and it was halted', { stop: 'cancelled' }, 'cancelled', null],
    ['the worker drained', { stop: 'drain', exit: exitOf(killed) }, 'worker_lost', 'drained'],
    ['the kernel killed it for memory', { exit: exitOf({ ...killed, oomKills: 1 }) }, 'oom', null],
    ['a shell saw the kernel kill it', { exit: exitOf({ exitCode: 137, oomKills: 2 }) }, 'oom', null],
    [
      'the kernel killed it after the soft stop',
      { softStopped: true, exit: exitOf({ ...killed, oomKills: 1 }) },
      'oom',
      null,
    ],
    ['memory took the sandbox with it', { lost: { ...lost, oomKills: 1 } }, 'oom', null],
    ['it ended after the soft stop', { softStopped: true, exit: exitOf() }, 'soft_timeout', null],
    [
      'it failed after the soft stop',
      { softStopped: true, exit: exitOf({ exitCode: 1 }), errorLine: 'MemoryError' },
      'soft_timeout',
      null,
    ],
    [
      'Python could not allocate',
      { exit: exitOf({ exitCode: 1 }), errorLine: 'MemoryError' },
      'oom',
      'memory_error',
    ],
    [
      'numpy could not allocate',
      { exit: exitOf({ exitCode: 1 }), errorLine: 'numpy._core._exceptions._ArrayMemoryError: Unable' },
      'oom',
      'memory_error',
    ],
    [
      'a storm that its shell survived',
      { exit: exitOf({ pidsLimitHit: true, processesLeft: 60 }), pidsLimit: 64 },
      'pids_limit',
      null,
    ],
    [
      'it was refused a process and did without',
      { exit: exitOf({ pidsLimitHit: true, processesLeft: 1 }), pidsLimit: 64 },
      'ok',
      'pids_limit_hit',
    ],
    [
      'it says that it got no thread',
      { exit: exitOf({ exitCode: 1 }), errorLine: "RuntimeError: can't start new thread" },
      'pids_limit',
      'fork_refused',
    ],
    [
      'its shell says that it got no process',
      { exit: exitOf({ exitCode: 254 }), errorLine: 'fork: Resource temporarily unavailable' },
      'pids_limit',
      'fork_refused',
    ],
    ['it only spoke of memory', { exit: exitOf(), errorLine: 'MemoryError' }, 'ok', null],
    ['it could not fork', { exit: exitOf({ exitCode: 1, pidsLimitHit: true }) }, 'pids_limit', null],
    ['it got over a failed fork', { exit: exitOf({ pidsLimitHit: true }) }, 'ok', 'pids_limit_hit'],
    ['its disk was full', { exit: exitOf({ exitCode: 1, diskLimitHit: true }) }, 'disk_limit', null],
    ['it got over a full disk', { exit: exitOf({ diskLimitHit: true }) }, 'ok', null],
    ['it killed itself', { exit: exitOf(killed) }, 'crashed', null],
    ['nobody knows how it exited', { exit: exitOf({ exitCode: null }) }, 'crashed', 'exit_unknown'],
    ['it failed', { exit: exitOf({ exitCode: 3 }) }, 'error', null],
    [
      'it failed for a child without memory',
      { exit: exitOf({ exitCode: 3, oomKills: 1 }) },
      'error',
      'oom_in_child',
    ],
    ['only a child ran out of memory', { exit: exitOf({ oomKills: 1 }) }, 'ok', 'oom_in_child'],
    ['it succeeded', { exit: exitOf() }, 'ok', null],
    ['its sandbox died', { lost }, 'sandbox_lost', 'sandbox_lost'],
    [
      'its sandbox lied',
      { lost: { ...lost, reason: 'protocol_violation' } },
      'sandbox_lost',
      'protocol_violation',
    ],
    [
      'its vendor ended the sandbox at its time',
      { lost: { ...lost, reason: 'session_timeout' } },
      'hard_timeout',
      'session_timeout',
    ],
    ['its sandbox died after the soft stop', { lost, softStopped: true }, 'sandbox_lost', 'sandbox_lost'],
  ])('when %s: %o ends %s', (_case, evidence, ending, reason) => {
    expect(decideEnding({ ...nothing, ...evidence })).toEqual({ ending, reason })
  })
})
