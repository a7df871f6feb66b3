/**
 * The sections `tier` and `sandbox` of cofferdam.config.yaml, in the format of agent platforms. They choose
 * this worker's backend and its limits. A request for more is reduced to these limits.
 */
import { MAX_LIMITS, softTimeoutOf, type ExecutionRequest } from '@cofferdam/contract'
import { z } from 'zod'
import { backendNameSchema } from './backend-name.ts'

const MiB = 1_048_576
const SIZE_UNITS: Readonly<Record<string, number>> = { '': 1, k: 1024, m: MiB, g: 1024 * MiB }
const TIME_UNITS: Readonly<Record<string, number>> = { ms: 1, '': 1000, s: 1000, m: 60_000, h: 3_600_000 }

/** A size in Docker's format: a number with k, m or g, else bytes. Returns MiB. */
const size = z.union([z.string(), z.number()]).transform((value, context) => {
  const [, digits = '', unit = ''] = /^(\d{1,15})([kmg]?)(?:i?b)?$/i.exec(String(value)) ?? []
  const mib = Math.floor((Number(digits) * (SIZE_UNITS[unit.toLowerCase()] ?? 0)) / MiB)
  if (digits !== '' && mib >= 16 && mib <= MAX_LIMITS.memory_mib) return mib
  context.addIssue(`expected a size from 16m to ${MAX_LIMITS.memory_mib}m, such as 256m or 1g`)
  return z.NEVER
})

/** A number with ms, s, m or h, else seconds. Returns milliseconds. */
const duration = z.union([z.string(), z.number()]).transform((value, context) => {
  const [, digits = '', unit = ''] = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)?$/.exec(String(value)) ?? []
  const ms = Math.round(Number(digits) * (TIME_UNITS[unit] ?? 0))
  if (digits !== '' && ms >= 100 && ms <= MAX_LIMITS.timeout_ms) return ms
  context.addIssue('expected a time from 100ms to 24h, such as 30s or 5m')
  return z.NEVER
})

const cpus = z
  .union([
    z.number(),
    z
      .string()
      .regex(/^\d{1,2}(\.\d{1,3})?$/, 'expected a number such as 0.5')
      .transform(Number),
  ])
  .pipe(z.number().min(0.05).max(MAX_LIMITS.cpus))

/** 1 and 2: no sandbox. 3: a container or stronger. 4: the host itself, if the tenant's policy allows it. */
export const tierSchema = z.union([z.literal(1), z.literal(2), z.literal(3), z.literal(4)])

export const sandboxSectionSchema = z.strictObject({
  backend: backendNameSchema
    .optional()
    .describe('The only backend. Ignored with tier 1 or 2, a section `backends` or COFFERDAM_BACKENDS.'),
  memory_limit: size.optional().describe('The most memory of an execution, e.g. `256m` or `1g`.'),
  cpu_limit: cpus.optional().describe('The most CPUs of an execution, e.g. `0.5`.'),
  network: z
    .boolean()
    .default(true)
    .describe('False: no execution on this worker has a network, whatever its request and its policy say.'),
  timeout: duration.optional().describe('The longest hard deadline, e.g. `30s`.'),
})
export type SandboxSection = z.output<typeof sandboxSectionSchema>

const BACKENDS_OF_TIER: Readonly<Record<z.infer<typeof tierSchema>, readonly string[]>> = {
  1: [],
  2: [],
  3: ['gvisor', 'docker'],
  4: ['none'],
}

/** The backends if neither COFFERDAM_BACKENDS nor `backends` names them. Null when nothing does. */
export function backendsOf(
  tier: z.infer<typeof tierSchema> | undefined,
  { backend }: SandboxSection,
): readonly string[] | null {
  if (tier === 1 || tier === 2) return BACKENDS_OF_TIER[tier]
  if (backend !== undefined) return [backend]
  return tier === undefined ? null : BACKENDS_OF_TIER[tier]
}

/** The request, limited to the section's values. The same object if it asks for no more. */
export function withinSection(request: ExecutionRequest, section: SandboxSection): ExecutionRequest {
  const { limits } = request
  const hard = Math.min(limits.hard_timeout_ms, section.timeout ?? Infinity)
  const cut = {
    memory_mib: Math.min(limits.memory_mib, section.memory_limit ?? Infinity),
    cpus: Math.min(limits.cpus, section.cpu_limit ?? Infinity),
    hard_timeout_ms: hard,
    soft_timeout_ms:
      hard < limits.hard_timeout_ms
        ? Math.min(limits.soft_timeout_ms, softTimeoutOf(hard))
        : limits.soft_timeout_ms,
  }
  const isSame = Object.entries(cut).every(([name, value]) => limits[name as keyof typeof cut] === value)
  return isSame ? request : { ...request, limits: { ...limits, ...cut } }
}
