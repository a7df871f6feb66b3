/** The IAM roles of the double's account, with IAM's query protocol as input and XML as output. */
import { randomBytes, randomUUID } from 'node:crypto'
import { Failure } from '../failure.ts'
import type { Knobs } from './knobs.ts'

export interface Role {
  name: string
  arn: string
  path: string
  id: string
  trust: string
  createdAtMs: number
  policies: Map<string, string>
}

/** Error codes and their HTTP status (docs.aws.amazon.com/IAM/latest/APIReference). */
const STATUS: Readonly<Record<string, number>> = {
  NoSuchEntity: 404,
  EntityAlreadyExists: 409,
  DeleteConflict: 409,
  MalformedPolicyDocument: 400,
  ValidationError: 400,
  Throttling: 400,
  ServiceFailure: 500,
}

export class IamFailure extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }

  get status(): number {
    return STATUS[this.code] ?? 400
  }
}

export class Roles {
  readonly all = new Map<string, Role>()
  readonly #knobs: Knobs
  readonly #account: string

  constructor(knobs: Knobs, account: string) {
    this.#knobs = knobs
    this.#account = account
  }

  /** Returns the XML inside `<Action>Result`; empty for an action without a result. */
  act(action: string, form: URLSearchParams): string {
    const name = form.get('RoleName') ?? ''
    if (!/^[\w+=,.@-]{1,64}$/.test(name)) throw new IamFailure('ValidationError', 'RoleName is not valid')
    if (action === 'CreateRole') return this.#create(name, form)
    const role = this.all.get(name)
    if (role === undefined)
      throw new IamFailure('NoSuchEntity', `The role with name ${name} cannot be found.`)
    const policy = form.get('PolicyName') ?? ''
    switch (action) {
      case 'GetRole':
        return xmlOf(role)
      case 'PutRolePolicy':
        role.policies.set(policy, documentOf(form, 'PolicyDocument'))
        return ''
      case 'DeleteRolePolicy':
        if (!role.policies.delete(policy))
          throw new IamFailure('NoSuchEntity', `The role policy with name ${policy} cannot be found.`)
        return ''
      case 'DeleteRole':
        if (role.policies.size > 0)
          throw new IamFailure('DeleteConflict', 'Cannot delete entity, must delete policies first.')
        this.all.delete(name)
        return ''
      default:
        throw new IamFailure('InvalidAction', `Could not find operation ${action}`)
    }
  }

  /** Makes the check that the service makes when an interpreter is created with a role. */
  checkAssumable(arn: unknown): void {
    const role = [...this.all.values()].find((one) => one.arn === arn)
    const isKnown = role !== undefined && Date.now() - role.createdAtMs >= this.#knobs.roleVisibleAfterMs
    const trusts =
      isKnown &&
      role.trust.includes('"bedrock-agentcore.amazonaws.com"') &&
      role.trust.includes(this.#account)
    if (!trusts)
      throw new Failure(
        'ValidationException',
        `Role validation failed for '${String(arn)}'. Verify that the role exists and its trust policy allows assumption by this service`,
        'FieldValidationFailed',
      )
  }

  #create(name: string, form: URLSearchParams): string {
    if (this.all.has(name))
      throw new IamFailure('EntityAlreadyExists', `Role with name ${name} already exists.`)
    const path = form.get('Path') ?? '/'
    const role: Role = {
      name,
      path,
      arn: `arn:aws:iam::${this.#account}:role${path}${name}`,
      id: `AROA${randomBytes(8).toString('hex').toUpperCase()}`,
      trust: documentOf(form, 'AssumeRolePolicyDocument'),
      createdAtMs: Date.now(),
      policies: new Map(),
    }
    this.all.set(name, role)
    return xmlOf(role)
  }
}

function documentOf(form: URLSearchParams, field: string): string {
  const text = form.get(field) ?? ''
  try {
    if (Array.isArray((JSON.parse(text) as { Statement?: unknown }).Statement)) return text
  } catch {
    // For text that is not JSON, the error below is thrown.
  }
  throw new IamFailure('MalformedPolicyDocument', `${field} is not a policy`)
}

const escaped = (text: string): string =>
  text.replaceAll(/[<>&]/g, (char) => ({ '<': '&lt;', '>': '&gt;', '&': '&amp;' })[char] ?? '')

function xmlOf(role: Role): string {
  const fields = {
    Path: role.path,
    RoleName: role.name,
    RoleId: role.id,
    Arn: role.arn,
    CreateDate: new Date(role.createdAtMs).toISOString(),
    AssumeRolePolicyDocument: encodeURIComponent(role.trust),
  }
  const cells = Object.entries(fields).map(([name, text]) => `<${name}>${escaped(text)}</${name}>`)
  return `<Role>${cells.join('')}</Role>`
}

/** Writes an answer in IAM's query protocol. */
export function answerXml(action: string, result: string): string {
  const inside = result === '' ? '' : `<${action}Result>${result}</${action}Result>`
  return `<${action}Response xmlns="https://iam.amazonaws.com/doc/2010-05-08/">${inside}${metadata()}</${action}Response>`
}

/** Writes a refusal in IAM's query protocol. */
export function refusalXml({ code, message }: IamFailure): string {
  const error = `<Error><Type>Sender</Type><Code>${code}</Code><Message>${escaped(message)}</Message></Error>`
  return `<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/">${error}<RequestId>${randomUUID()}</RequestId></ErrorResponse>`
}

const metadata = (): string => `<ResponseMetadata><RequestId>${randomUUID()}</RequestId></ResponseMetadata>`
