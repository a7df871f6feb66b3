import { describe, expect, it } from 'vitest'
import { CofferdamError, executionRequestSchema, parse, toErrorBody } from './index.ts'

const valid = {
  tenant_id: 'acme',
  agent_id: 'analyst',
  program: { type: 'script', language: 'python', source: 'print(1+1)' },
}

const problemsOf = (input: unknown): string[] => {
  try {
    parse(executionRequestSchema, input)
    return []
  } catch (error) {
    expect(error).toBeInstanceOf(CofferdamError)
    const problems = (error as CofferdamError).details['problems'] as { field: string; message: string }[]
    return problems.map((p) => `${p.field}: ${p.message}`)
  }
}

describe('executionRequestSchema', () => {
  it('fills in the documented defaults', () => {
    expect(parse(executionRequestSchema, valid)).toEqual({
      ...valid,
      limits: {
        soft_timeout_ms: 25_000,
        hard_timeout_ms: 30_000,
        memory_mib: 256,
        cpus: 1,
        pids: 128,
        disk_mib: 64,
        stdout_bytes: 262_144,
        stderr_bytes: 32_768,
        on_output_limit: 'truncate',
        artifact_bytes: 8_388_608,
        artifacts_total_bytes: 16_777_216,
        artifact_count: 256,
      },
      network: 'none',
      environment: 'default-public',
      backend: 'auto',
      lane: 'interactive',
      priority: 5,
      on_cap: 'reject',
    })
  })

  it('takes 1 to 16 different keys for a fork, none of them of a run, and no keys for anything else', () => {
    const files = (program: object) =>
      problemsOf({ ...valid, session: { key: 'a' }, program: { type: 'files', ...program } })
    expect(files({ op: 'fork', keys: ['b', 'c'] })).toEqual([])
    expect(files({ op: 'pause' })).toEqual([])
    for (const program of [
      { op: 'fork' },
      { op: 'fork', keys: [] },
      { op: 'fork', keys: ['b', 'b'] },
      { op: 'fork', keys: Array.from({ length: 17 }, (_, n) => `k${n}`) },
      { op: 'fork', keys: ['run:a:1'] },
      { op: 'pause', keys: ['b'] },
    ])
      expect(files(program), JSON.stringify(program)).toEqual([expect.stringMatching(/^program\.keys: /)])
  })

  it.each([
    [{ hard_timeout_ms: 2000 }, 1000, 2000],
    [{ hard_timeout_ms: 60_000 }, 55_000, 60_000],
    [{ soft_timeout_ms: 1000 }, 1000, 6000],
    [{ soft_timeout_ms: 10, hard_timeout_ms: 20 }, 10, 20],
  ])('moves the other deadline along with %j', (limits, soft, hard) => {
    const parsed = parse(executionRequestSchema, { ...valid, limits })
    expect([parsed.limits.soft_timeout_ms, parsed.limits.hard_timeout_ms]).toEqual([soft, hard])
  })

  it.each<[string, unknown, RegExp]>([
    ['a missing tenant', { ...valid, tenant_id: undefined }, /^tenant_id: .*got nothing/],
    [
      'a tenant with a slash',
      { ...valid, tenant_id: 'a/b' },
      /^tenant_id: expected 1-128 letters.*got "a\/b"/,
    ],
    ['an unknown key', { ...valid, progam: 1 }, /Unrecognized key: "progam"/],
    [
      'an unknown language',
      { ...valid, program: { ...valid.program, language: 'perl' } },
      /^program\.language: .*"perl"/,
    ],
    [
      'both argv and shell',
      { ...valid, program: { type: 'command', argv: ['ls'], shell: 'ls' } },
      /exactly one of argv and shell/,
    ],
    ['neither argv nor shell', { ...valid, program: { type: 'command' } }, /exactly one of argv and shell/],
    [
      'a path that climbs',
      { ...valid, files: [{ path: '../x', content: '' }] },
      /^files\.0\.path: expected a relative path/,
    ],
    ['an absolute path', { ...valid, files: [{ path: '/etc/passwd', content: '' }] }, /^files\.0\.path/],
    [
      'a file given twice',
      {
        ...valid,
        files: [
          { path: 'a', content: '' },
          { path: 'a', content: '' },
        ],
      },
      /^files: expected each path once/,
    ],
    ['bad base64', { ...valid, files: [{ path: 'a', content_base64: '%%%' }] }, /^files\.0\.content_base64/],
    ['a NUL in a variable', { ...valid, env: { A: 'x\0y' } }, /^env\.A: expected no NUL byte/],
    ['a bad variable name', { ...valid, env: { '1A': 'x' } }, /^env/],
    [
      'soft above hard',
      { ...valid, limits: { soft_timeout_ms: 2000, hard_timeout_ms: 1000 } },
      /^limits\.soft_timeout_ms/,
    ],
    [
      'source above the bound',
      { ...valid, program: { ...valid.program, source: 'é'.repeat(600_000) } },
      /^program\.source: .*a string of 600000/,
    ],
    [
      'a pattern of too many wildcards',
      { ...valid, workspace: { name: 'w', rules: [{ pattern: `${'**/'.repeat(169)}zz`, direction: 'in' }] } },
      /^workspace\.rules\.0\.pattern: expected at most 8 parts "\*\*"/,
    ],
    ['a number as a body', 3, /^\(root\): .*got number 3/],
    ['null', null, /^\(root\): .*got null/],
    ['a bad traceparent', { ...valid, traceparent: '00-xyz' }, /^traceparent: expected a W3C traceparent/],
  ])('refuses %s and says so', (_name, input, expected) => {
    expect(problemsOf(input).join('\n')).toMatch(expected)
  })

  it('does not repeat long user data in its messages', () => {
    const message = problemsOf({ ...valid, tenant_id: 'sekret '.repeat(100) }).join()
    expect(message).not.toContain('sekret')
  })

  it('treats __proto__ as an unknown key, not as a prototype', () => {
    const input = JSON.parse('{"__proto__":{"tenant_id":"evil"},"agent_id":"a"}') as unknown
    expect(problemsOf(input).join()).toMatch(/tenant_id: .*got nothing/)
  })
})

describe('toErrorBody', () => {
  it('hides what a foreign error says', () => {
    const { http, body } = toErrorBody(new Error('password=hunter2'), 'abc')
    expect(http).toBe(500)
    expect(JSON.stringify(body)).not.toContain('hunter2')
    expect(body.error).toMatchObject({ code: 'internal', retry: 'later', trace_id: 'abc' })
  })
})
