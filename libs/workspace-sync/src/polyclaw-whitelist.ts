/** Polyclaw's whitelist (seed 004) in rules of ours: each entry is a file or folder of the data directory's root. */
import { CofferdamError, type SyncRule } from '@cofferdam/contract'
import { isControl, isNever, patternParts } from './rules.ts'

/** As the seed lists them. */
export const DEFAULT_WHITELIST: readonly string[] = [
  'media',
  'memory',
  'notes',
  'sessions',
  'skills',
  '.copilot',
  '.env',
  '.workiq.json',
  'agent_profile.json',
  'conversation_refs.json',
  'infra.json',
  'interaction_log.json',
  'mcp_servers.json',
  'plugins.json',
  'scheduler.json',
  'skill_usage.json',
  'SOUL.md',
]

/** An entry in the spelling that is stored: `./notes/` is `notes`. Throws `invalid_request` for what is no path. */
export function whitelistEntry(text: string): string {
  patternParts(text)
  return text
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')
}

/** The rules that a whitelist stands for. Throws `invalid_request`. */
export function rulesOfWhitelist(whitelist: readonly string[]): SyncRule[] {
  return whitelist.map((entry) => ({ pattern: whitelistEntry(entry), direction: 'both' }))
}

/** True for what the seed's API refuses with 400, in any spelling and at any depth. */
function isBlacklisted(entry: string): boolean {
  return isNever(entry) && !DEFAULT_WHITELIST.includes(entry)
}

/** What a reader of the whitelist should know: entries that do less than they say. */
export function whitelistWarnings(whitelist: readonly string[]): string[] {
  return whitelist.flatMap((entry) => {
    if (isNever(entry)) return [`${entry} holds secrets: it is never carried, whatever the whitelist says.`]
    if (isControl(entry))
      return [`${entry} steers programs outside of the sandbox: it goes in and never comes back.`]
    return []
  })
}

/** Throws `invalid_request` for an entry that is blacklisted. */
export function refuseBlacklisted(entry: string): void {
  if (isBlacklisted(entry))
    throw new CofferdamError(
      'invalid_request',
      `${entry.slice(0, 100)} is blacklisted and cannot be whitelisted.`,
    )
}
