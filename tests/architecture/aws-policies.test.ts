/**
 * Checks infra/aws: the JSON policies grant exactly the calls that the code makes, Terraform uses all of
 * these files and no others, and provisioning makes the same roles.
 */
import { globSync, readFileSync } from 'node:fs'
import { basename, matchesGlob } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { interpreterName, roleName } from '../../libs/backends/agentcore/src/provision/interpreter-name.ts'
import { executionPolicy, trustPolicy } from '../../libs/backends/agentcore/src/provision/role-policy.ts'

const FOLDER = fileURLToPath(new URL('../../infra/aws/agentcore/', import.meta.url))
const BACKEND = fileURLToPath(new URL('../../libs/backends/agentcore/src/', import.meta.url))
const SCOPE: Record<string, string> = {
  partition: 'aws',
  region: 'eu-west-1',
  account_id: '123456789012',
  prefix: 'cofferdam',
}
const CUSTOM = 'arn:aws:bedrock-agentcore:eu-west-1:123456789012:code-interpreter-custom/'

interface Statement {
  Effect: string
  Action: string | string[]
  Resource?: string
  Condition?: unknown
}
const files = globSync('policies/*.json', { cwd: FOLDER }).map((path) => basename(path))
const text = (name: string): string => readFileSync(FOLDER + name, 'utf8')
/** Fills in the placeholders as Terraform's `templatefile` does. */
const rendered = (name: string): { Version: string; Statement: Statement[] } =>
  JSON.parse(
    text(`policies/${name}`).replaceAll(/\$\{(\w+)\}/g, (_, key: string) => SCOPE[key] ?? `no ${key}`),
  ) as { Version: string; Statement: Statement[] }
/** The SDK commands in the backend's files of this pattern, each once. */
const commandsIn = (pattern: string): string[] => [
  ...new Set(
    globSync(pattern, { cwd: BACKEND }).flatMap((file) =>
      [...readFileSync(BACKEND + file, 'utf8').matchAll(/\bnew (?:sdk\.)?(\w+)Command\(/g)].map(
        ([, command = '']) => command,
      ),
    ),
  ),
]
const terraform = ['main.tf', 'variables.tf', 'outputs.tf'].map(text).join('\n')

describe('the policies', () => {
  it.each([
    [
      'worker.json',
      [
        'Allow InvokeCodeInterpreter ListCodeInterpreterSessions StartCodeInterpreterSession StopCodeInterpreterSession ' +
          `${CUSTOM}cofferdam_*`,
      ],
    ],
    [
      'provisioner.json',
      [
        `Allow CreateCodeInterpreter ${CUSTOM}*`,
        `Allow DeleteCodeInterpreter GetCodeInterpreter ${CUSTOM}cofferdam_*`,
        'Allow ListCodeInterpreters *',
      ],
    ],
    [
      'provisioner-roles.json',
      [
        'Allow iam:CreateRole iam:DeleteRole iam:DeleteRolePolicy iam:GetRole iam:PutRolePolicy arn:aws:iam::123456789012:role/cofferdam/cofferdam_*',
      ],
    ],
    ['pass-role.json', ['Allow iam:PassRole arn:aws:iam::123456789012:role/cofferdam/*']],
    [
      'service-linked-role.json',
      [
        'Allow iam:CreateServiceLinkedRole arn:aws:iam::123456789012:role/aws-service-role/network.bedrock-agentcore.amazonaws.com/AWSServiceRoleForBedrockAgentCoreNetwork',
      ],
    ],
    ['execution.json', ['Deny * *']],
  ])('%s grants this and no more', (name, granted) => {
    const { Version, Statement: statements } = rendered(name)
    expect(Version).toBe('2012-10-17')
    expect(
      statements.map(({ Effect, Action, Resource }) =>
        [Effect, ...[Action].flat().map((one) => one.replace('bedrock-agentcore:', '')), Resource].join(' '),
      ),
    ).toEqual(granted)
  })

  it('of the worker cover the interpreters of its own deployment and no others', () => {
    const [statement] = rendered('worker.json').Statement
    const covers = (prefix: string): boolean =>
      matchesGlob(
        `${CUSTOM}${interpreterName(prefix, 'acme', 'internal-only')}-AbCdEf0123`,
        statement?.Resource ?? '',
      )
    expect([covers('cofferdam'), covers('staging'), covers('cofferdam2')]).toEqual([true, false, false])
    const role = `arn:aws:iam::123456789012:role/cofferdam/${roleName('cofferdam', 'acme')}`
    expect(matchesGlob(role, rendered('provisioner-roles.json').Statement[0]?.Resource ?? '')).toBe(true)
  })

  it.each([
    ['worker.json', 'bedrock-agentcore', '*.ts', []],
    ['provisioner.json', 'bedrock-agentcore', 'provision/control-plane.ts', []],
    ['provisioner-roles.json', 'iam', 'provision/tenant-roles.ts', []],
    // No code of ours calls these. AWS checks the first when an interpreter gets a role, and the second when
    // the first interpreter in a VPC is created.
    ['pass-role.json', 'iam', null, ['iam:PassRole']],
    ['service-linked-role.json', 'iam', null, ['iam:CreateServiceLinkedRole']],
  ])(
    'of %s name exactly the calls that the code makes, all of them and no others',
    (name, service, from, implied) => {
      const granted = rendered(name).Statement.flatMap(({ Action }) => Action)
      const called = from === null ? [] : commandsIn(from).map((command) => `${service}:${command}`)
      expect(granted.toSorted()).toEqual([...called, ...implied].toSorted())
    },
  )

  it('cover every file that calls AWS', () => {
    const calling = globSync('**/*.ts', { cwd: BACKEND }).filter((file) => commandsIn(file).length > 0)
    expect(calling.toSorted()).toEqual([
      'data-plane.ts',
      'provision/control-plane.ts',
      'provision/tenant-roles.ts',
    ])
  })

  it('pass roles only to the service', () => {
    expect(rendered('service-linked-role.json').Statement[0]?.Condition).toEqual({
      StringEquals: { 'iam:AWSServiceName': 'network.bedrock-agentcore.amazonaws.com' },
    })
    expect(rendered('pass-role.json').Statement[0]?.Condition).toEqual({
      StringEquals: { 'iam:PassedToService': 'bedrock-agentcore.amazonaws.com' },
    })
  })

  it('of a role are those that provisioning writes', () => {
    const scope = { region: 'eu-west-1', account_id: '123456789012', data_bucket: undefined }
    expect(rendered('execution-trust.json')).toEqual(trustPolicy(scope))
    expect(rendered('execution.json')).toEqual(executionPolicy(scope, 'acme'))
  })
})

describe('the Terraform module', () => {
  it('contains every policy and fills in its placeholders', () => {
    const used = [
      ...terraform.matchAll(/templatefile\("\$\{path\.module\}\/policies\/([\w-]+\.json)", local\.scope\)/g),
    ]
    expect(new Set(used.map(([, name]) => name))).toEqual(new Set(files))
    const scope = /scope = \{([^}]*)\}/.exec(terraform)?.[1] ?? ''
    const keys = [...scope.matchAll(/^ *(\w+) +=/gm)].map(([, key]) => key)
    expect(keys.toSorted()).toEqual(Object.keys(SCOPE).toSorted())
    const asked = files.flatMap((name) =>
      [...text(`policies/${name}`).matchAll(/\$\{([^}]*)\}/g)].map(([, key]) => key),
    )
    for (const key of asked) expect(keys).toContain(key)
  })

  it('declares what it uses and uses what it declares', () => {
    const declared = [...terraform.matchAll(/^variable "(\w+)"/gm)].map(([, name]) => name)
    const used = [...terraform.matchAll(/\bvar\.(\w+)/g)].map(([, name]) => name)
    expect(new Set(used)).toEqual(new Set(declared))
    const resources = [...terraform.matchAll(/^resource "(\w+)" "(\w+)"/gm)].map(
      ([, type, name]) => `${type}.${name}`,
    )
    expect(new Set(resources).size).toBe(resources.length)
    for (const [, name] of terraform.matchAll(/\b(aws_iam_\w+\.\w+)[.[]/g)) expect(resources).toContain(name)
    for (const [open, close] of ['{}', '()', '[]'])
      expect(terraform.split(open ?? '').length).toBe(terraform.split(close ?? '').length)
  })

  it('accepts the same prefixes as the configuration', () => {
    expect(terraform).toContain('regex("^[a-zA-Z][a-zA-Z0-9]{0,11}$", var.prefix)')
  })
})
