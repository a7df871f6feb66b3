/** The double of the control plane and IAM, tested with the vendor's unmodified clients. */
import {
  BedrockAgentCoreControlClient,
  CreateCodeInterpreterCommand,
  DeleteCodeInterpreterCommand,
  GetCodeInterpreterCommand,
  paginateListCodeInterpreters,
} from '@aws-sdk/client-bedrock-agentcore-control'
import { BedrockAgentCoreClient, StartCodeInterpreterSessionCommand } from '@aws-sdk/client-bedrock-agentcore'
import {
  CreateRoleCommand,
  DeleteRoleCommand,
  DeleteRolePolicyCommand,
  GetRoleCommand,
  IAMClient,
  PutRolePolicyCommand,
} from '@aws-sdk/client-iam'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startAccountDouble, type AccountDouble } from '../double/control/control-plane.ts'
import { SERVICE_LIKE } from '../double/control/knobs.ts'

let double: AccountDouble
let control: BedrockAgentCoreControlClient
let iam: IAMClient
beforeAll(async () => {
  double = await startAccountDouble()
  double.knobs.changesPerSecond = 1000
  const options = {
    region: double.region,
    endpoint: double.origin,
    credentials: double.secrets,
    maxAttempts: 1,
  }
  control = new BedrockAgentCoreControlClient(options)
  iam = new IAMClient(options)
})
afterAll(async () => {
  control.destroy()
  iam.destroy()
  await double[Symbol.asyncDispose]()
})

let made = 0
const wish = (extra: object = {}) => ({
  name: `name_${(made += 1)}`,
  networkConfiguration: { networkMode: 'SANDBOX' as const },
  ...extra,
})
const create = (input: ReturnType<typeof wish>) => control.send(new CreateCodeInterpreterCommand(input))
const trust = JSON.stringify({
  Statement: [
    {
      Principal: { Service: 'bedrock-agentcore.amazonaws.com' },
      Condition: { StringEquals: { 'aws:SourceAccount': '123456789012' } },
    },
  ],
})

describe('the double’s control plane', () => {
  it('creates an interpreter that get, list and the data plane show until its deletion', async () => {
    const { codeInterpreterId: id = '', codeInterpreterArn, status, createdAt } = await create(wish())
    expect(id).toMatch(/^name_\d+-[A-Za-z0-9]{10}$/)
    expect(codeInterpreterArn).toBe(
      `arn:aws:bedrock-agentcore:us-east-1:123456789012:code-interpreter-custom/${id}`,
    )
    expect([status, createdAt instanceof Date]).toEqual(['CREATING', true])
    expect(await control.send(new GetCodeInterpreterCommand({ codeInterpreterId: id }))).toMatchObject({
      status: 'READY',
      networkConfiguration: { networkMode: 'SANDBOX' },
    })
    expect(double.data.interpreters?.has(id)).toBe(true)
    await control.send(new DeleteCodeInterpreterCommand({ codeInterpreterId: id }))
    await expect(
      control.send(new GetCodeInterpreterCommand({ codeInterpreterId: id })),
    ).rejects.toMatchObject({ name: 'ResourceNotFoundException' })
    const data = new BedrockAgentCoreClient({
      region: double.region,
      endpoint: double.origin,
      credentials: double.secrets,
    })
    await expect(
      data.send(new StartCodeInterpreterSessionCommand({ codeInterpreterIdentifier: id })),
    ).rejects.toMatchObject({ name: 'ResourceNotFoundException' })
    data.destroy()
  })

  it('answers a known token with its interpreter, and refuses other parameters', async () => {
    const asked = wish({ clientToken: 't'.repeat(40) })
    const first = await create(asked)
    expect((await create(asked)).codeInterpreterId).toBe(first.codeInterpreterId)
    await control.send(new DeleteCodeInterpreterCommand({ codeInterpreterId: first.codeInterpreterId ?? '' }))
    expect((await create(asked)).codeInterpreterId).toBe(first.codeInterpreterId)
    await expect(create({ ...asked, name: 'another' })).rejects.toMatchObject({
      name: 'ValidationException',
      reason: 'IdempotentParameterMismatchException',
    })
  })

  it('refuses used and invalid names, more than the quota, and roles it may not assume', async () => {
    const asked = wish()
    await create(asked)
    await expect(create(asked)).rejects.toMatchObject({ name: 'ConflictException' })
    await expect(create(wish({ name: 'has-hyphen' }))).rejects.toMatchObject({ name: 'ValidationException' })
    const executionRoleArn = 'arn:aws:iam::123456789012:role/nobody'
    await expect(create(wish({ executionRoleArn }))).rejects.toThrow(/Role validation failed/)
    double.knobs.quota = double.stock.ready().length
    await expect(create(wish())).rejects.toMatchObject({
      name: 'ServiceQuotaExceededException',
      $metadata: { httpStatusCode: 402 },
    })
    double.knobs.quota = SERVICE_LIKE.quota
  })

  it('lists interpreters page by page', async () => {
    for (let n = 0; n < 5; n += 1) await create(wish())
    double.knobs.pageMax = 2
    const ids: (string | undefined)[] = []
    for await (const page of paginateListCodeInterpreters({ client: control }, { maxResults: 100 })) {
      expect(page.codeInterpreterSummaries?.length).toBeLessThanOrEqual(2)
      ids.push(...(page.codeInterpreterSummaries ?? []).map((one) => one.codeInterpreterId))
    }
    double.knobs.pageMax = SERVICE_LIKE.pageMax
    expect(ids.toSorted()).toEqual(double.stock.ready().toSorted())
  })

  it('shows a new interpreter late, and throttles creation alone', async () => {
    double.knobs.visibleAfterMs = 60_000
    const { codeInterpreterId: id = '' } = await create(wish())
    await expect(
      control.send(new GetCodeInterpreterCommand({ codeInterpreterId: id })),
    ).rejects.toMatchObject({ name: 'ResourceNotFoundException' })
    double.knobs.visibleAfterMs = 0
    expect(await control.send(new GetCodeInterpreterCommand({ codeInterpreterId: id }))).toMatchObject({
      status: 'READY',
    })
    double.knobs.changesPerSecond = 0
    await expect(create(wish())).rejects.toMatchObject({
      name: 'ThrottlingException',
      $metadata: { httpStatusCode: 429 },
    })
    double.knobs.changesPerSecond = 1000
  })

  it('refuses requests that are signed with other keys', async () => {
    const stranger = new BedrockAgentCoreControlClient({
      region: double.region,
      endpoint: double.origin,
      credentials: { ...double.secrets, secretAccessKey: 'other' },
    })
    await expect(stranger.send(new CreateCodeInterpreterCommand(wish()))).rejects.toMatchObject({
      name: 'AccessDeniedException',
    })
    stranger.destroy()
  })
})

describe('the double’s IAM', () => {
  it('creates and returns a role, and deletes the role once its policies are gone', async () => {
    const RoleName = 'cofferdam_acme'
    const { Role } = await iam.send(
      new CreateRoleCommand({ RoleName, Path: '/cofferdam/', AssumeRolePolicyDocument: trust }),
    )
    expect(Role?.Arn).toBe('arn:aws:iam::123456789012:role/cofferdam/cofferdam_acme')
    await expect(
      iam.send(new CreateRoleCommand({ RoleName, AssumeRolePolicyDocument: trust })),
    ).rejects.toMatchObject({ name: 'EntityAlreadyExistsException' })
    const found = await iam.send(new GetRoleCommand({ RoleName }))
    expect(decodeURIComponent(found.Role?.AssumeRolePolicyDocument ?? '')).toBe(trust)
    expect(found.Role?.CreateDate).toBeInstanceOf(Date)

    const inline = { RoleName, PolicyName: 'p', PolicyDocument: '{"Statement":[]}' }
    await iam.send(new PutRolePolicyCommand(inline))
    await iam.send(new PutRolePolicyCommand(inline))
    await expect(iam.send(new DeleteRoleCommand({ RoleName }))).rejects.toMatchObject({
      name: 'DeleteConflictException',
    })
    await create(wish({ executionRoleArn: Role?.Arn }))
    await iam.send(new DeleteRolePolicyCommand({ RoleName, PolicyName: 'p' }))
    await iam.send(new DeleteRoleCommand({ RoleName }))
    await expect(iam.send(new GetRoleCommand({ RoleName }))).rejects.toMatchObject({
      name: 'NoSuchEntityException',
    })
  })

  it('refuses invalid policies', async () => {
    await expect(
      iam.send(new CreateRoleCommand({ RoleName: 'r', AssumeRolePolicyDocument: 'no JSON' })),
    ).rejects.toMatchObject({ name: 'MalformedPolicyDocumentException' })
  })
})
