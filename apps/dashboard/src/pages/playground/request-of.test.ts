import { describe, expect, it } from 'vitest'
import { Failure } from '../../api/failure.ts'
import { choicesIn, problemOf, queryOf, requestOf, textsOf } from './request-of.ts'

/** The form of an address with some texts, as a browser reads it. */
function formOf(choices: string, more: Record<string, string> = {}): FormData {
  const form = new FormData()
  for (const [name, text] of Object.entries({ ...textsOf(choices), ...more })) form.set(name, text)
  return form
}

describe('the choices of the playground', () => {
  it.each([
    '',
    'tenant=acme',
    'tenant=a%26b&language=bash&backend=docker&min_isolation=gvisor&network=public',
    'agent_id=reports&soft_timeout_ms=1500&hard_timeout_ms=20500&memory_mib=512&cpus=0.5',
  ])('go through the form unchanged: %j', (choices) => {
    const query = Object.entries(queryOf(formOf(choices))).filter(([, value]) => value)
    expect(new URLSearchParams(query as Array<[string, string]>).toString()).toBe(choices)
  })

  it('are those of the address that the form knows, without defaults and the program', () => {
    const query = new URLSearchParams('run=exe_1&source=print&cpus=&language=bash&tenant=acme')
    expect(choicesIn(query)).toBe('tenant=acme&language=bash')
    const form = formOf('', { 'program.source': 'secret', stdin: 'secret', env: 'A=secret' })
    expect(JSON.stringify(queryOf(form))).not.toContain('secret')
    expect(Object.values(queryOf(form)).filter((value) => value)).toEqual([])
  })

  it('of a hostile address become texts of fields, and nothing else', () => {
    const texts = textsOf('memory_mib=1e9999&cpus=<b>&language=__proto__&backend=a&backend=b')
    expect(requestOf(formOf('', texts))).toEqual({
      tenant_id: '',
      agent_id: 'playground',
      program: { type: 'script', language: '__proto__', source: '' },
      backend: 'a',
    })
  })
})

describe('the request of the playground', () => {
  it('has what was typed, in the units of the API', () => {
    const form = formOf('tenant=acme&language=bash&hard_timeout_ms=1500&pids=16', {
      'program.source': 'echo "$1"\r\n',
      'program.argv': 'a b\n\n',
      stdin: ' 1\n\n',
      env: 'A=1=2\n\n B\n__proto__=x',
      artifacts: '*.png\nout/**\n',
    })
    const request = requestOf(form)
    expect(request).toEqual({
      tenant_id: 'acme',
      agent_id: 'playground',
      program: { type: 'script', language: 'bash', source: 'echo "$1"\n', argv: ['a b', ''] },
      stdin: ' 1\n\n',
      env: Object.fromEntries([
        ['A', '1=2'],
        ['B', ''],
        ['__proto__', 'x'],
      ]),
      artifacts: ['*.png', 'out/**'],
      limits: { hard_timeout_ms: 1500, pids: 16 },
    })
    expect(Object.keys(request.env ?? {})).toEqual(['A', 'B', '__proto__'])
  })
})

describe('a problem of the API', () => {
  const failureOf = (problems: unknown) =>
    new Failure({ code: 'invalid_request', status: 400, message: 'x', details: { problems } })

  it.each([
    ['env', 'no name'],
    ['program.argv', 'too long'],
    ['limits.cpus', undefined],
    ['env.A', undefined],
  ])('finds its field: %s', (field, message) => {
    const problems = [
      { field: 'env.A B', message: 'no name' },
      { field: 'program.argv.3', message: 'too long' },
      { field: 'limits.cpus2', message: 'other' },
    ]
    expect(problemOf(failureOf(problems), field)).toBe(message)
  })

  it.each([
    undefined,
    null,
    'x',
    [null],
    [1],
    [{ field: 1 }],
    [{ field: 'env' }],
    [{ field: 'env', message: {} }],
  ])('of another form is none: %j', (problems) => {
    expect(problemOf(failureOf(problems), 'env')).toBeUndefined()
  })
})
