import { describe, expect, it } from 'vitest'
import { keptRequestOf, keptRequestSchema } from './kept-request.ts'
import { executionRequestSchema, type ExecutionRequestInput } from './request.ts'
import { editedRequest, rerunEditSchema, type RerunEdit } from './rerun.ts'

const SCRIPT = { type: 'script', language: 'python', source: 'print(1)', argv: ['a'] } as const

const asked = (more: Partial<ExecutionRequestInput> = {}) =>
  executionRequestSchema.parse({ tenant_id: 't', agent_id: 'a', program: SCRIPT, ...more })

/** Converts to JSON and back, because the blob store has the request as JSON. */
const kept = (more: Partial<ExecutionRequestInput> = {}, isSealed = true) =>
  keptRequestSchema.parse(JSON.parse(JSON.stringify(keptRequestOf(asked(more), isSealed))))

const edited = (more: Partial<ExecutionRequestInput>, edit: RerunEdit) =>
  executionRequestSchema.parse(editedRequest(kept(more), rerunEditSchema.parse(edit)))

describe('a kept request', () => {
  it('is the request again, without what belongs to one call', () => {
    const request = {
      user_id: 'u',
      run_id: 'r',
      template_id: 'strict',
      stdin: 'in',
      files: [{ path: 'a.bin', content_base64: 'AAEC', executable: true }],
      env: { TOKEN: 'secret-1' },
      artifacts: ['*.png'],
      session: { key: 'notebook' },
      workspace: { name: 'notes' },
      limits: { memory_mib: 64 },
    }
    const once = {
      idempotency_key: 'k',
      tool_call_id: 'c',
      delay_ms: 5,
      callback_url: 'https://example.com/hook',
      invocation_source: 'chat',
      traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`,
    } as const
    const found = kept({ ...request, ...once })
    expect(executionRequestSchema.parse(editedRequest(found, {}))).toEqual(asked(request))
    expect(found).toMatchObject({ env_names: [], not_copied: ['callback_url', 'delay_ms'] })
    for (const value of [once.idempotency_key, once.callback_url, once.traceparent])
      expect(JSON.stringify(found)).not.toContain(JSON.stringify(value))
  })

  it('has no values of variables in clear, and asks for them', () => {
    const found = kept({ env: { TOKEN: 'secret-1', MODE: 'secret-2' } }, false)
    expect(JSON.stringify(found)).not.toContain('secret-')
    expect(() => editedRequest(found, { env: { MODE: 'x' } })).toThrow(/edit\.env, or null: TOKEN\.$/)
    expect(editedRequest(found, { env: { MODE: 'x', TOKEN: null } })['env']).toEqual({ MODE: 'x' })
  })

  it('leaves out the session that policy gave it, and keeps one that it named', () => {
    const ofRun = keptRequestOf(
      { ...asked({ run_id: 'r' }), session: { key: 'run:a:r', scope: 'files' } },
      true,
    )
    expect(ofRun.request).not.toHaveProperty('session')
    expect(ofRun.request).not.toHaveProperty('reuse')
    expect(kept({ session: { key: 'mine' } }).request['session']).toMatchObject({ key: 'mine' })
  })

  it('leaves out fields that this release does not know', () => {
    expect(keptRequestOf({ ...asked(), newer: 1 } as never, true).request).not.toHaveProperty('newer')
  })
})

describe('edits', () => {
  it('change the arguments of a script, and of a command with argv', () => {
    expect(edited({}, { args: ['b', 'c'] }).program).toEqual({ ...SCRIPT, argv: ['b', 'c'] })
    const command = { type: 'command' as const, argv: ['ls', '-l'] }
    expect(edited({ program: command }, { args: [] }).program).toEqual({ type: 'command', argv: ['ls'] })
    expect(edited({}, { program: command, args: ['-a'] }).program).toMatchObject({ argv: ['ls', '-a'] })
    const shell = { type: 'command', shell: 'ls' } as const
    expect(() => edited({ program: shell }, { args: [] })).toThrow('edit.args needs a script')
  })

  it('merge variables by name, whatever the names are', () => {
    const env = JSON.parse('{"A":"1","B":"2","constructor":"3"}') as Record<string, string>
    expect(edited({ env }, { env: { A: null, B: '4', C: '5' } }).env).toEqual({
      B: '4',
      constructor: '3',
      C: '5',
    })
    expect(edited({}, { env: { A: '1' } }).env).toEqual({ A: '1' })
  })

  it('change one deadline without contradicting the other', () => {
    const before = { limits: { soft_timeout_ms: 20_000, hard_timeout_ms: 30_000, memory_mib: 64 } }
    expect(edited(before, { limits: { hard_timeout_ms: 8000 } }).limits).toMatchObject({
      soft_timeout_ms: 4000,
      hard_timeout_ms: 8000,
      memory_mib: 64,
    })
    expect(edited(before, { limits: { soft_timeout_ms: 60_000 } }).limits.hard_timeout_ms).toBe(65_000)
    expect(edited(before, { limits: { cpus: 2, memory_mib: null } }).limits).toMatchObject({
      soft_timeout_ms: 20_000,
      hard_timeout_ms: 30_000,
      memory_mib: 256,
      cpus: 2,
    })
  })

  it('replace and remove other fields', () => {
    const before = { stdin: 'x', session: { key: 's' }, files: [{ path: 'a', content: '1' }] }
    const after = edited(before, { stdin: null, session: null, files: [{ path: 'b', content: '2' }] })
    expect(after).not.toHaveProperty('stdin')
    expect(after).not.toHaveProperty('session')
    expect(after.files).toEqual([{ path: 'b', content: '2' }])
    expect(edited(before, { backend: 'gvisor', priority: 9 })).toMatchObject({
      backend: 'gvisor',
      priority: 9,
      stdin: 'x',
    })
  })

  it.each([
    { tenant_id: 'other' },
    { agent_id: 'other' },
    { template_id: 'lax' },
    { callback_url: 'https://example.com' },
    { rerun_of: 'exe_0190a5b5c7e0700080000000000000aa' },
    { limits: { unknown: 1 } },
    { limits: { memory_mib: 1 } },
    { env: { 'A-B': '1' } },
    { env: Object.fromEntries(Array.from({ length: 129 }, (_, i) => [`V${i}`, ''])) },
    { files: [{ path: '../x', content: '' }] },
  ])('refuse %j', (edit) => {
    expect(rerunEditSchema.safeParse(edit).success).toBe(false)
  })
})

it('only the API names the execution that a request runs again', () => {
  const rerun = { rerun_of: 'exe_0190a5b5c7e0700080000000000000aa' } as Partial<ExecutionRequestInput>
  expect(() => asked(rerun)).toThrow(/rerun_of/)
})
