/** What a person changed in the form of a rerun, as the API takes it. A field left empty changes nothing. */
import type { RerunRequest } from '@cofferdam/client'

export type RerunEdit = NonNullable<RerunRequest['edit']>

/** Limits of the form, each with its place in the API and how many of its units are one of the form's. */
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

const textOf = (form: FormData, name: string): string => {
  const value = form.get(name)
  return typeof value === 'string' ? value : ''
}

/**
 * `missing`: variables whose values the form asks for. One that is left empty is left out of the new
 * execution: that is what null means to the API.
 */
export function editOf(form: FormData, missing: readonly string[]): RerunEdit {
  const backend = textOf(form, 'backend')
  const limits = limitsOf(form)
  const env = Object.fromEntries(missing.map((name) => [name, textOf(form, variableField(name)) || null]))
  return {
    ...(form.has('replaces_args') ? { args: argsOf(textOf(form, 'args')) } : {}),
    ...(backend === '' ? {} : { backend }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    ...(missing.length === 0 ? {} : { env }),
  }
}

/** One argument a line. The end of the last line begins no other one. */
function argsOf(text: string): string[] {
  const lines = text.replaceAll('\r\n', '\n').replace(/\n$/, '')
  return lines === '' ? [] : lines.split('\n')
}

function limitsOf(form: FormData): NonNullable<RerunEdit['limits']> {
  const given = LIMIT_FIELDS.flatMap(({ name, times }) => {
    const text = textOf(form, name).trim()
    const value = Number(text) * times
    // Milliseconds are whole. The browser itself refuses what is no number.
    return text === '' || !Number.isFinite(value)
      ? []
      : [[name, times === 1 ? value : Math.round(value)] as const]
  })
  return Object.fromEntries(given)
}
