/** What a person changed in the form of a rerun, as the API takes it. A field left empty changes nothing. */
import type { RerunRequest } from '@cofferdam/client'

export type RerunEdit = NonNullable<RerunRequest['edit']>

/** Limits of the form. `name` is the API's field, and one unit of the form is `times` units of the API. */
export const LIMIT_FIELDS = [
  { name: 'hard_timeout_ms', words: 'Hard deadline, s', times: 1000, min: 0.01, max: 86_400, step: 'any' },
  { name: 'cpu_time_ms', words: 'CPU time, s', times: 1000, min: 0.01, max: 86_400, step: 'any' },
  { name: 'memory_mib', words: 'Memory, MiB', times: 1, min: 16, max: 16_384, step: '1' },
  { name: 'disk_mib', words: 'Disk, MiB', times: 1, min: 1, max: 16_384, step: '1' },
  { name: 'cpus', words: 'Processors', times: 1, min: 0.05, max: 16, step: 'any' },
  { name: 'pids', words: 'Processes', times: 1, min: 4, max: 4096, step: '1' },
] as const

/** The form's field of a variable whose value was not kept. */
export const variableField = (name: string): string => `env:${name}`

/** The text of a field. Empty if the form has none of this name. */
export const textOf = (form: FormData, name: string): string => {
  const value = form.get(name)
  return typeof value === 'string' ? value.replaceAll('\r\n', '\n') : ''
}

/**
 * `missing`: variables whose values the form asks for. If a field stays empty, the API gets null and leaves
 * that variable out of the new execution.
 */
export function editOf(form: FormData, missing: readonly string[]): RerunEdit {
  const backend = textOf(form, 'backend')
  const limits = limitsOf(LIMIT_FIELDS, (name) => textOf(form, name))
  const env = Object.fromEntries(missing.map((name) => [name, textOf(form, variableField(name)) || null]))
  return {
    ...(form.has('replaces_args') ? { args: linesOf(textOf(form, 'args')) } : {}),
    ...(backend === '' ? {} : { backend }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    ...(missing.length === 0 ? {} : { env }),
  }
}

/** The values of a text with one value a line, such as arguments. A final line feed adds no value. */
export function linesOf(text: string): string[] {
  const lines = text.replace(/\n$/, '')
  return lines === '' ? [] : lines.split('\n')
}

/** The limits that are given, in the units of the API. */
export function limitsOf<Name extends string>(
  fields: ReadonlyArray<{ name: Name; times: number }>,
  textOfField: (name: Name) => string,
): { [Limit in Name]?: number } {
  const given = fields.flatMap(({ name, times }) => {
    const text = textOfField(name).trim()
    const value = Number(text) * times
    // Limits in milliseconds must be whole numbers, so they are rounded.
    return text === '' || !Number.isFinite(value)
      ? []
      : [[name, times === 1 ? value : Math.round(value)] as const]
  })
  return Object.fromEntries(given) as { [Limit in Name]?: number }
}
