import { describe, expect, it } from 'vitest'
import { packageRuleProblems, packageRules, type Registry } from './package-rules.ts'

describe('package rules', () => {
  it.each<[Registry, string, string, string, boolean]>([
    ['pypi', 'requests', 'requests', '2.32.0', true],
    ['pypi', 'Zope.Interface', 'zope-interface', '6.0', true],
    ['pypi', 'requests', 'request', '1.0', false],
    ['pypi', 'requests==2.31.*', 'requests', '2.31.7', true],
    ['pypi', 'requests==2.31.*', 'requests', '2.32.0', false],
    ['pypi', 'requests >=2, <3', 'requests', '2.99', true],
    ['pypi', 'requests>=2,<3', 'requests', '3.0', false],
    ['pypi', 'requests>=2,<3', 'requests', '3.0rc1', false],
    ['pypi', 'requests~=2.1', 'requests', '2.9', true],
    ['pypi', '*', 'anything', '0.0.1.dev1', true],
    ['pypi', 'requests==', 'requests', '2.0', false],
    ['npm', 'left-pad', 'left-pad', '1.3.0', true],
    ['npm', 'left-pad@^1.2', 'left-pad', '1.3.0', true],
    ['npm', 'left-pad@^1.2', 'left-pad', '2.0.0', false],
    ['npm', 'left-pad@^1.2', 'left-pad', '1.3.0-beta.1', false],
    ['npm', '@acme/*', '@acme/tool', '9.9.9', true],
    ['npm', '@acme/*', '@acme2/tool', '9.9.9', false],
    ['npm', '@acme/*', 'acme', '9.9.9', false],
    ['npm', '@acme/tool@1.x', '@acme/tool', '1.5.0', true],
    ['npm', '@acme/tool@1.x', '@acme/tool', '2.0.0', false],
    ['npm', 'JSONStream', 'jsonstream', '1.0.0', false],
    ['npm', '*', '@any/thing', '1.0.0', true],
    ['npm', 'left-pad@not a range', 'left-pad', '1.3.0', false],
  ])('%s: %s lets %s %s pass: %s', (registry, rule, name, version, expected) => {
    expect(packageRules(registry, [rule]).allowsVersion(name, version)).toBe(expected)
  })

  it('add up when several name one package', () => {
    const rules = packageRules('pypi', ['a==1.*', 'a==3.*'])
    expect(['1.2', '2.0', '3.1'].map((version) => rules.allowsVersion('a', version))).toEqual([
      true,
      false,
      true,
    ])
  })

  it('are reported when they cannot be read', () => {
    const problems = packageRuleProblems({
      pypi: ['ok', 'a==', 'a @ http://x', '-a', '*>=1'],
      npm: ['ok@1', '@scope', 'a@not a range', '../x', '*@1'],
    })
    expect(problems.map((problem) => /"(.*?)"/.exec(problem)?.[1])).toEqual([
      'a==',
      'a @ http://x',
      '-a',
      '*>=1',
      '@scope',
      'a@not a range',
      '../x',
      '*@1',
    ])
  })
})
