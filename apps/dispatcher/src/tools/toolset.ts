/**
 * The six tools of Anthropic's `agent_toolset_20260401`. README.md lists where they differ from the SDK's.
 */
import { bash } from './bash.ts'
import { edit, read, write } from './file-tools.ts'
import { restoredBash } from './restored-bash.ts'
import { glob, grep } from './search-tools.ts'
import type { Tool, ToolName } from './tool.ts'

/** The tools by name. */
export const TOOLSET: Readonly<Record<ToolName, Tool>> = { bash, read, write, edit, glob, grep }

/** The tools for sessions that keep files but no processes. */
export const TOOLSET_WITHOUT_PROCESSES: typeof TOOLSET = { ...TOOLSET, bash: restoredBash }
