/**
 * Which packages and versions a tenant may install: those that at least one rule allows. A rule that cannot
 * be read allows nothing. PyPI: `name`, `name==1.2.*`, `name>=2,<3`, `*`. npm: `name`, `name@^1.2`,
 * `@scope/*`, `@scope/name@1.x`, `*`.
 */
import type { TenantPolicy } from '@cofferdam/contract'
import * as pep440 from '@renovatebot/pep440'
import semver from 'semver'

export type Registry = keyof TenantPolicy['packages']

export interface PackageRules {
  /** Whether some version of `name` may be installed. */
  allowsName(name: string): boolean
  allowsVersion(name: string, version: string): boolean
  /** The rules of `name` as written, for sentences. */
  describe(name: string): string
}

interface Rule {
  text: string
  /** `*`, `@scope/*`, or one name. */
  pattern: string
  allows(version: string): boolean
}

/** PEP 503: case, and runs of `-`, `_` and `.`, make no difference. Null for an invalid name (PEP 508). */
export function pypiName(name: string): string | null {
  if (name.length > 256 || !/^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(name)) return null
  return name.toLowerCase().replaceAll(/[-_.]+/g, '-')
}

/** Null for an invalid npm name. Case is kept, because old packages with capitals are separate. */
export function npmName(name: string): string | null {
  const part = "[A-Za-z0-9~!*'()-][A-Za-z0-9~!*'()._-]*"
  return name.length <= 214 && new RegExp(`^(?:@${part}/)?${part}$`).test(name) ? name : null
}

function parsePypiRule(text: string): Rule | null {
  const [, written = '', specifier = ''] = /^\s*(\*|[A-Za-z0-9][A-Za-z0-9._-]*)\s*(.*?)\s*$/.exec(text) ?? []
  const pattern = written === '*' ? '*' : pypiName(written)
  if (pattern === null || (specifier !== '' && (pattern === '*' || !pep440.validRange(specifier))))
    return null
  return {
    text,
    pattern,
    allows: (version) => specifier === '' || pep440.satisfies(version, specifier, { prereleases: true }),
  }
}

function parseNpmRule(text: string): Rule | null {
  const [, pattern = '', range] =
    /^\s*(\*|@[^@/\s]+\/\*|(?:@[^@/\s]+\/)?[^@/\s*]+)(?:@(.+?))?\s*$/.exec(text) ?? []
  const isPattern = pattern.endsWith('*')
  if (!isPattern && npmName(pattern) === null) return null
  if (range !== undefined && (isPattern || semver.validRange(range) === null)) return null
  return {
    text,
    pattern,
    allows: (version) => range === undefined || semver.satisfies(version, range),
  }
}

const PARSERS: Record<Registry, (text: string) => Rule | null> = { pypi: parsePypiRule, npm: parseNpmRule }

/** A sentence for each rule that cannot be read, for the API that operators write rules with. */
export function packageRuleProblems(packages: TenantPolicy['packages']): string[] {
  const forms = {
    pypi: 'name, name==1.2.* (any PEP 440 specifier) or *',
    npm: 'name, name@^1.2, @scope/* or *',
  }
  return (['pypi', 'npm'] as const).flatMap((registry) =>
    packages[registry]
      .filter((text) => PARSERS[registry](text) === null)
      .map((text) => `packages.${registry}: "${text}" is not a rule; expected ${forms[registry]}`),
  )
}

export function packageRules(registry: Registry, texts: readonly string[]): PackageRules {
  const rules = texts.flatMap((text) => PARSERS[registry](text) ?? [])
  const byPattern = Map.groupBy(rules, (rule) => rule.pattern)
  const of = (name: string): readonly Rule[] => [
    ...(byPattern.get('*') ?? []),
    ...(byPattern.get(name) ?? []),
    ...(name.includes('/') ? (byPattern.get(`${name.split('/')[0]}/*`) ?? []) : []),
  ]
  return {
    allowsName: (name) => of(name).length > 0,
    allowsVersion: (name, version) => of(name).some((rule) => rule.allows(version)),
    describe: (name) =>
      of(name)
        .map((rule) => rule.text)
        .join(' | '),
  }
}
