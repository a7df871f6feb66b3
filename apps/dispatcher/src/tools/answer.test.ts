import { BOUNDS, ENDINGS, SURROUNDINGS, type ExecutionResult } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { resultWith } from '../../test/run-plan.ts'
import { TOOL_NAMES, type ToolAnswer, type ToolName, type ToolRoots } from './tool.ts'
import { TOOLSET } from './toolset.ts'

const ROOTS: ToolRoots = { workdir: SURROUNDINGS.workFolder, allowed: [], readOnly: [] }
const INPUT = {
  command: 'true',
  file_path: 'a',
  content: 'x',
  old_string: 'x',
  new_string: 'y',
  pattern: 'x',
}

const answer = (tool: ToolName, changes: Partial<ExecutionResult>, input: object = {}): ToolAnswer =>
  TOOLSET[tool].plan({ ...INPUT, ...input }, ROOTS).answer(resultWith(changes))

const STATUS = (code: number) => `cofferdam-exit ${code} ${SURROUNDINGS.workFolder}/.cofferdam-main.sh\n`

describe('an answer', () => {
  it('is an error for every ending but ok, and begins with the tool', () => {
    for (const tool of TOOL_NAMES)
      for (const ending of ENDINGS) {
        const { text, isError } = answer(tool, { ending, stdout: '', error_message: 'Because.' })
        expect(isError).toBe(true)
        expect(text).toMatch(new RegExp(`^${tool}: [a-zA-Z].{10,}`))
      }
  })

  it.each<[ExecutionResult['ending'], Partial<ExecutionResult>, string]>([
    [
      'error',
      { exit_code: 127, error_message: 'python3: not found' },
      'the tool failed in the sandbox. python3: not found',
    ],
    ['crashed', { exit_code: null, signal: 'SIGSEGV' }, 'the tool failed in the sandbox.'],
    ['soft_timeout', { duration_ms: 30_000.4 }, 'the call timed out after 30000ms.'],
    ['hard_timeout', { duration_ms: 70_000 }, 'the call timed out after 70000ms.'],
    [
      'hard_timeout',
      { reason: 'cpu_time_limit' },
      'the program was killed because it used too much CPU time.',
    ],
    [
      'hard_timeout',
      { reason: 'session_timeout' },
      'the time of the sandbox was over, so it was ended with the call.',
    ],
    ['soft_timeout', { reason: 'heartbeat_timeout' }, 'the program reported no progress, so it was stopped.'],
    ['oom', {}, 'the sandbox ran out of memory, so the program was killed. Use less memory at a time.'],
    ['pids_limit', {}, 'the sandbox has reached its limit of processes. End processes that are not needed.'],
    ['disk_limit', {}, 'the disk of the sandbox is full. Delete files that are not needed.'],
    [
      'output_limit',
      {},
      'the program was stopped because it wrote too much output. Send its output to a file.',
    ],
    ['cancelled', {}, 'the call was cancelled. It may have had effects.'],
    [
      'policy_denied',
      { error_message: 'The host x is not allowed.' },
      'this is not permitted here, so nothing was run. The host x is not allowed.',
    ],
    [
      'provisioning',
      { error_message: 'No backend.' },
      'no sandbox could be provided, so nothing was run. No backend. Try again in a minute.',
    ],
    [
      'sandbox_lost',
      {},
      'the sandbox was lost during the call. The call may have had effects. Check before you repeat it.',
    ],
    [
      'worker_lost',
      {},
      'the machine that ran the sandbox stopped during the call. The call may have had effects. Check before you repeat it.',
    ],
    [
      'cap_exceeded',
      { dimension: 'agent_hourly', resets_at: '2026-11-26T10:00:00.000Z' },
      "the hour's number of executions for this agent is used up, so nothing was run. Try again after 2026-11-26T10:00:00.000Z.",
    ],
    [
      'cap_exceeded',
      { dimension: 'tenant_daily_cost', resets_at: '2026-11-27T00:00:00.000Z' },
      "the day's budget is used up, so nothing was run. Try again after 2026-11-27T00:00:00.000Z.",
    ],
    ['cap_exceeded', {}, 'a quota could not be checked, so nothing was run. Try again later.'],
    [
      'cap_exceeded',
      { kill_switch: true, resets_at: '2026-11-27T00:00:00.000Z', error_message: 'Maintenance.' },
      'executions are switched off at the moment, so nothing was run. Maintenance.',
    ],
  ])('of %s says in plain English what happened %j', (ending, changes, text) => {
    expect(answer('read', { ending, ...changes })).toEqual({ text: `read: ${text}`, isError: true })
  })

  it('of bash names its time limit, however it was reached', () => {
    for (const ending of ['soft_timeout', 'hard_timeout'] as const)
      for (const [timeout_ms, shown] of [
        [500, 500],
        [300_000, 120_000],
        [-5, 10],
        [undefined, 120_000],
      ])
        expect(answer('bash', { ending, stderr: 'out' }, { timeout_ms })).toEqual({
          text: `bash: bash command timed out after ${shown}ms`,
          isError: true,
        })
  })

  it('of bash has the output before the reason', () => {
    expect(answer('bash', { ending: 'oom', stdout: STATUS(137), stderr: 'partly\n' })).toEqual({
      text: 'partly\nbash: the sandbox ran out of memory, so the program was killed. Use less memory at a time.',
      isError: true,
    })
  })

  it('of bash does not take the last line of output for the cause', () => {
    const said = { stdout: STATUS(1), stderr: 'MemoryError: not really\n', exit_code: 1 }
    expect(answer('bash', { ending: 'oom', reason: 'memory_error', ...said })).toEqual({
      text: 'MemoryError: not really',
      isError: true,
    })
  })

  it('of bash takes the last status, because a trap may print one before', () => {
    const stdout = `cofferdam-exit 9 x\nfrom a trap\n${STATUS(0)}`
    expect(answer('bash', { stdout, stderr: 'fine\n' })).toEqual({ text: 'fine', isError: false })
  })

  it('of bash is cut from 102,345 characters on, which the SDK counts with its end mark', () => {
    const textOf = (length: number): string =>
      answer('bash', { stdout: STATUS(0), stderr: 'x'.repeat(length) }).text
    expect(textOf(102_344)).toBe('x'.repeat(102_344))
    expect(textOf(102_345)).toBe(`[output truncated]\n${'x'.repeat(102_344)}`)
  })

  it('of bash says when even the end of the output is missing', () => {
    const stderr_bytes = BOUNDS.fullOutputBytes + 1
    const { text } = answer('bash', {
      stdout: STATUS(0),
      stderr: 'x\n',
      stderr_bytes,
      stderr_truncated: true,
    })
    expect(text).toBe('[output truncated]\n[of 16777217 bytes, this is the end of the first 16777216]\nx')
  })

  it('of restart is the same whether the shell exited or was killed', () => {
    for (const ending of ['ok', 'error', 'crashed'] as const) {
      const plan = TOOLSET.bash.plan({ restart: true }, ROOTS)
      expect(plan.answer(resultWith({ ending }))).toEqual({ text: 'bash session restarted', isError: false })
    }
    const lost = TOOLSET.bash.plan({ restart: true }, ROOTS).answer(resultWith({ ending: 'sandbox_lost' }))
    expect(lost.isError).toBe(true)
  })

  it('keeps the marks of redaction', () => {
    const stdout = '{"is_error":false}\nkey=<redacted>\n'
    expect(answer('read', { stdout })).toEqual({ text: 'key=<redacted>\n', isError: false })
    expect(answer('bash', { stdout: STATUS(0), stderr: '<redacted>\n' }).text).toBe('<redacted>')
  })

  it.each(['', 'x', '{"is_error":1}\n', '{"is_error":true}', '[]\n', '{"is_error":true,"more":1}\n'])(
    'is an error if a tool prints %j',
    (stdout) => {
      expect(answer('grep', { stdout })).toEqual({
        text: 'grep: the tool failed in the sandbox.',
        isError: true,
      })
    },
  )

  it('is an error if the output of a tool is cut', () => {
    const stdout = '{"is_error":false}\npart'
    expect(answer('read', { stdout, stdout_truncated: true }).isError).toBe(true)
  })
})
