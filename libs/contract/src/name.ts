/** Names that callers choose, and times: the texts that most wire schemas share. */
import { z } from 'zod'

/** Names that callers choose for tenants, agents, users, runs, tool calls, templates: any UUID or slug. */
export const nameSchema = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}$/,
    'expected 1-128 letters, digits or _ . @ -, starting with a letter or digit',
  )

/** A time that we write: UTC, with milliseconds. */
export const timeSchema = z.iso.datetime().meta({ example: '2026-11-20T12:00:00.000Z' })
