/**
 * Which files of a workspace go into sandboxes and which come back. Paths are folded and matched part by
 * part, so no spelling of a name bypasses a rule.
 *
 *   never-list (cannot be overridden) ─► first matching rule ─► no rule matches: never
 *                                          └─ control file, and the rule lacks `control`: into sandboxes only
 */
import { BOUNDS, CofferdamError, isPattern, type SyncDirection, type SyncRule } from '@cofferdam/contract'
import { foldGlob, foldPart, matchesPart } from './fold-names.ts'
import { CONTROL_NAMES, NEVER_NAMES } from './guarded-names.ts'

/** The rules of a request that has none. */
const DEFAULT_RULES: readonly SyncRule[] = [{ pattern: '**', direction: 'both' }]

/** Why a path is not copied. */
export type RuleRefusal = 'never_list' | 'control_file' | 'no_rule' | 'rule'

/** Rules, validated and folded once. */
export interface CompiledRules {
  /** Why the path may not go into a sandbox. Null when it may. */
  refusesIn(path: string): RuleRefusal | null
  /** Why a change or deletion of the path may not come out. Null when it may. */
  refusesOut(path: string): RuleRefusal | null
}

/** True for secrets and machine-specific folders, in any spelling and folder. */
export function isNever(path: string): boolean {
  return guarded(path, NEVER)
}

/** True for files that control programs outside of the sandbox. */
export function isControl(path: string): boolean {
  return guarded(path, CONTROL)
}

const NEVER = NEVER_NAMES.map(foldGlob)
const CONTROL = CONTROL_NAMES.map(foldGlob)

function guarded(path: string, names: readonly string[]): boolean {
  // Paths with a backslash are refused elsewhere, but also guarded here.
  return path.split(/[/\\]/).some((part) => {
    const folded = foldPart(part)
    return names.some((name) => matchesPart(name, folded))
  })
}

/** Throws `invalid_request` for an invalid pattern. */
export function compileRules(rules: readonly SyncRule[] = DEFAULT_RULES): CompiledRules {
  const compiled = rules.map(({ pattern, direction, control = false }) => ({
    parts: patternParts(pattern),
    direction,
    control,
  }))
  const refuses = (path: string, way: 'in' | 'out'): RuleRefusal | null => {
    if (isNever(path)) return 'never_list'
    const parts = path.split('/').map(foldPart)
    const rule = compiled.find((candidate) => matchesPath(candidate.parts, parts))
    if (rule === undefined) return 'no_rule'
    if (!allows(rule.direction, way)) return 'rule'
    return way === 'out' && !rule.control && isControl(path) ? 'control_file' : null
  }
  return {
    refusesIn: (path) => refuses(path, 'in'),
    refusesOut: (path) => refuses(path, 'out'),
  }
}

const allows = (direction: SyncDirection, way: 'in' | 'out'): boolean =>
  direction === 'both' || direction === way

/** The parts of a pattern: `./a//b/` is `a/b`. Throws `invalid_request` if it leads out of the workspace. */
export function patternParts(pattern: string): string[] {
  const parts = pattern.split('/').filter((part) => part !== '' && part !== '.')
  const isBad = pattern.length > BOUNDS.pathLength || !isPattern(pattern)
  if (isBad)
    throw new CofferdamError(
      'invalid_request',
      `"${pattern.slice(0, 100)}" is no pattern of a workspace: ` +
        'expected a relative path without "..", backslashes or NUL.',
    )
  return parts.map(foldGlob)
}

/** A pattern matches a path and everything below it. At worst quadratic, bounded by BOUNDS.pathLength. */
function matchesPath(pattern: readonly string[], path: readonly string[]): boolean {
  // reached[j]: whether the pattern's parts so far match the first j parts of the path.
  let reached = Array.from({ length: path.length + 1 }, (_, at) => at === 0)
  for (const part of pattern) {
    const next = Array.from({ length: path.length + 1 }, () => false)
    for (let at = 0; at <= path.length; at += 1) {
      if (part === '**') next[at] = reached[at] === true || (at > 0 && next[at - 1] === true)
      else if (at > 0) next[at] = reached[at - 1] === true && matchesPart(part, path[at - 1] ?? '')
    }
    reached = next
  }
  return reached.includes(true)
}
