/** Polyclaw's whitelist as workspace rules: files and folders at the top of its data directory. */
import { CofferdamError, type SyncRule } from '@cofferdam/contract'
import { isControl, isNever, patternParts } from '@cofferdam/workspace-sync'

/** Folders of credentials and caches, as Polyclaw shows them. Workspaces never sync any of them. */
export const BLACKLIST: readonly string[] = [
  '.azure',
  '.cache',
  '.config',
  '.IdentityService',
  '.net',
  '.npm',
  '.pki',
]

/** Polyclaw's own defaults. */
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

/** Normalizes an entry: `./notes/` becomes `notes`. Throws `invalid_request` for an invalid path. */
export function whitelistEntry(text: string): string {
  patternParts(text)
  return text
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')
}

/** Throws `invalid_request` for an invalid path. */
export function rulesOfWhitelist(whitelist: readonly string[]): SyncRule[] {
  return whitelist.map((entry) => ({ pattern: whitelistEntry(entry), direction: 'both' }))
}

/**
 * Finds blacklisted names in any spelling and in any folder. Polyclaw's own defaults contain `.env`, so that
 * entry is accepted but never synced.
 */
function isBlacklisted(entry: string): boolean {
  return isNever(entry) && !DEFAULT_WHITELIST.includes(entry)
}

/** One warning per entry that syncs less than a reader would expect. */
export function whitelistWarnings(whitelist: readonly string[]): string[] {
  return whitelist.flatMap((entry) => {
    if (isNever(entry)) return [`${entry} holds secrets: it is never carried, whatever the whitelist says.`]
    if (isControl(entry))
      return [`${entry} steers programs outside of the sandbox: it goes in and never comes back.`]
    return []
  })
}

/** Throws `invalid_request` for a blacklisted entry. */
export function refuseBlacklisted(entry: string): void {
  if (isBlacklisted(entry))
    throw new CofferdamError(
      'invalid_request',
      `${entry.slice(0, 100)} is blacklisted and cannot be whitelisted.`,
    )
}
