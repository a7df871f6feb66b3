import { describe, expect, it } from 'vitest'
import { editOf, LIMIT_FIELDS, variableField } from './edit-of.ts'

/** The form as a browser sends it: every field is there, empty ones as empty texts. */
function form(values: Record<string, string>): FormData {
  const data = new FormData()
  for (const name of ['args', 'backend', ...LIMIT_FIELDS.map((field) => field.name)]) data.set(name, '')
  for (const [name, value] of Object.entries(values)) data.set(name, value)
  return data
}

describe('the edit of a form', () => {
  it.each<[Record<string, string>, object]>([
    [{}, {}],
    [{ args: 'ignored' }, {}],
    [{ args: '', replaces_args: 'on' }, { args: [] }],
    [{ args: '--year\r\n2027\r\n', replaces_args: 'on' }, { args: ['--year', '2027'] }],
    [{ args: 'a\n\nb c', replaces_args: 'on' }, { args: ['a', '', 'b c'] }],
    [{ backend: 'gvisor' }, { backend: 'gvisor' }],
    [{ hard_timeout_ms: '1.5', memory_mib: '512' }, { limits: { hard_timeout_ms: 1500, memory_mib: 512 } }],
    [{ cpu_time_ms: '0.0105', cpus: '0.5' }, { limits: { cpu_time_ms: 11, cpus: 0.5 } }],
    [{ pids: 'many' }, {}],
  ])('of %j is %j', (values, edit) => {
    expect(editOf(form(values), [])).toEqual(edit)
  })

  it('leaves out a variable whose value is not given', () => {
    const values = { [variableField('TOKEN')]: 'x y', [variableField('constructor')]: '' }
    expect(editOf(form(values), ['TOKEN', 'constructor'])).toEqual({
      env: { TOKEN: 'x y', constructor: null },
    })
  })
})
