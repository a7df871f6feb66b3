/**
 * How strongly a backend separates a program from the host, weakest first. `microvm-emulated` is a microVM
 * without hardware virtualisation, which never counts as `microvm`.
 */
import { z } from 'zod'

export const ISOLATIONS = [
  'none',
  'process',
  'jail',
  'container',
  'gvisor',
  'microvm-emulated',
  'microvm',
] as const
export const isolationSchema = z.enum(ISOLATIONS)
export type Isolation = z.infer<typeof isolationSchema>

/** True when `actual` is at least as strong as `required`. */
export function isAtLeast(actual: Isolation, required: Isolation): boolean {
  return ISOLATIONS.indexOf(actual) >= ISOLATIONS.indexOf(required)
}

export function strongest(a: Isolation, b: Isolation): Isolation {
  return isAtLeast(a, b) ? a : b
}
