/**
 * A tool is two pure functions: from the agent's input to an execution, and from the execution's result to
 * the agent's answer. Nothing in this folder does I/O, except that the sources in Python and bash are read
 * when the module loads.
 */
import { parse, type ExecutionResult, type Program, type limitsSchema } from '@cofferdam/contract'
import type { z } from 'zod'

export const TOOL_NAMES = ['bash', 'read', 'write', 'edit', 'glob', 'grep'] as const
export type ToolName = (typeof TOOL_NAMES)[number]

/** Absolute folders in the sandbox. The file tools reach no other, also not through symbolic links. */
export interface ToolRoots {
  /** Where relative paths begin. */
  workdir: string
  /** Folders besides `workdir` that the file tools may reach. */
  allowed: readonly string[]
  /** Folders that `write` and `edit` refuse to change. They are inside of `workdir` or `allowed`. */
  readOnly: readonly string[]
}

/** What the agent reads. `text` may be empty. */
export interface ToolAnswer {
  text: string
  isError: boolean
}

export interface ToolPlan {
  /**
   * A program that runs in its own execution before `program` begins. Its result does not matter. Only bash
   * needs it, for `restart` with a command: no program can replace the shell that runs it.
   */
  before?: Program
  program: Program
  stdin?: string
  limits: Partial<z.input<typeof limitsSchema>>
  answer(result: ExecutionResult): ToolAnswer
}

export interface Tool {
  name: ToolName
  description: string
  /** JSON Schema, as in Anthropic's SDK. */
  inputSchema: { type: 'object'; properties: Record<string, object>; required?: readonly string[] }
  /** Throws ToolInputError for an input that cannot be run. The same input gives the same plan. */
  plan(input: unknown, roots: ToolRoots): ToolPlan
}

/** The input is not one that the tool can run. The message is for the agent. */
export class ToolInputError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ToolInputError'
  }
}

/**
 * Parses an agent's input. Unknown fields are ignored, because another release of the toolset may have more.
 */
export function parseInput<T extends z.ZodType>(tool: ToolName, schema: T, input: unknown): z.output<T> {
  try {
    return parse(schema, input, 'the input')
  } catch (error) {
    throw new ToolInputError(`${tool}: ${error instanceof Error ? error.message : 'the input is not valid'}`)
  }
}

/** Models leave an optional field out, or send null. */
export const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => value ?? undefined)
