import type { ExecutionResult } from '@cofferdam/client'
import { expect, it } from 'vitest'
import { commandResult, refusalOf } from './command-result.ts'

const result = (fields: Partial<ExecutionResult>): ExecutionResult => ({
  ok: false,
  execution_id: 'exe_1',
  attempt: 1,
  exit_status: 'error',
  ending: 'error',
  exit_code: null,
  signal: null,
  stdout: '',
  stderr: '',
  stdout_bytes: 0,
  stderr_bytes: 0,
  stdout_truncated: false,
  stderr_truncated: false,
  duration_ms: 5,
  queue_ms: 1,
  usage: null,
  artifacts: [],
  backend: 'docker',
  isolation: 'container',
  trace_id: null,
  caps: null,
  ...fields,
})
const codeOf = (fields: Partial<ExecutionResult>): number =>
  commandResult(result(fields), { stdout: '', stderr: '' }).exitCode

it('has an exit code for every ending of a command', () => {
  expect(codeOf({ ending: 'ok', exit_code: 0 })).toBe(0)
  expect(codeOf({ ending: 'error', exit_code: 3 })).toBe(3)
  expect(codeOf({ ending: 'crashed', signal: 'SIGSEGV' })).toBe(139)
  expect(codeOf({ ending: 'soft_timeout', exit_code: 0 })).toBe(124)
  expect(codeOf({ ending: 'hard_timeout', signal: 'SIGKILL' })).toBe(124)
  expect(codeOf({ ending: 'oom', signal: 'SIGKILL' })).toBe(137)
  expect(codeOf({ ending: 'pids_limit', exit_code: 0 })).toBe(1)
  expect(codeOf({ ending: 'cancelled', signal: 'SIGNEW' })).toBe(128)
})

it('says in stderr why a command did not end by itself', () => {
  const fields = { ending: 'oom' as const, signal: 'SIGKILL', error_message: 'Out of memory.' }
  const { stderr, isKilled } = commandResult(result(fields), { stdout: '', stderr: 'half a line' })
  expect([stderr, isKilled]).toEqual(['half a line\ncofferdam: Out of memory.\n', true])
  const failed = result({ exit_code: 1, error_message: 'The program exited with code 1.' })
  expect(commandResult(failed, { stdout: '', stderr: 'own words\n' })).toMatchObject({
    stderr: 'own words\n',
    isKilled: false,
  })
})

it('is an error when the platform refused or lost the command', () => {
  expect(refusalOf(result({ exit_code: 1 }))).toBeNull()
  expect(
    refusalOf(result({ ending: 'cap_exceeded', error_message: 'No more today.', resets_at: 'T' })),
  ).toMatchObject({
    code: 'conflict',
    message: 'No more today.',
    details: { ending: 'cap_exceeded', execution_id: 'exe_1', resets_at: 'T' },
  })
  expect(refusalOf(result({ ending: 'worker_lost' }))?.code).toBe('sandbox_lost')
  expect(refusalOf(result({ ending: 'provisioning', reason: 'session_not_found' }))?.code).toBe(
    'session_not_found',
  )
  expect(refusalOf(result({ ending: 'provisioning' }))?.code).toBe('backend_unavailable')
})
