import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describeApi } from '../src/describe-api.ts'
import type { OpenApiDocument } from '../src/openapi-document.ts'
import { openScene, type Scene } from './scene.ts'

let scene: Scene
let document: OpenApiDocument
beforeAll(async () => {
  scene = await openScene()
  document = (await scene.app.inject({ url: '/openapi.json' })).json()
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const operations = () =>
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  )

describe('the OpenAPI document', () => {
  it('is the one that the reference page is made of', async () => {
    expect(document).toEqual(await describeApi())
  })

  it('describes every tag of an operation', () => {
    const described = document.tags.map(({ name }) => name)
    const used = new Set(operations().flatMap(({ operation }) => operation.tags))
    expect([...used].filter((tag) => !described.includes(tag))).toEqual([])
    expect(described.filter((tag) => !used.has(tag))).toEqual([])
  })

  it('lists every route', () => {
    expect(document.openapi).toBe('3.1.0')
    expect(
      operations()
        .map(({ method, path }) => `${method.toUpperCase()} ${path}`)
        .sort(),
    ).toEqual([
      'DELETE /api/sandbox/provision',
      'DELETE /v1/backends/{backend}/sessions/{key}',
      'DELETE /v1/backends/{backend}/sessions/{key}/files/{path}',
      'DELETE /v1/keys/{key_id}',
      'DELETE /v1/routines/{id}',
      'DELETE /v1/tenants/{id}/callback-secret',
      'DELETE /v1/tenants/{id}/keys/{key_id}',
      'DELETE /v1/tenants/{id}/workspaces/{name}',
      'GET /api/sandbox/config',
      'GET /api/sandbox/config/events',
      'GET /healthz',
      'GET /metrics',
      'GET /readyz',
      'GET /v1/audit/export',
      'GET /v1/audit/feed',
      'GET /v1/audit/invocations',
      'GET /v1/backends',
      'GET /v1/backends/{backend}/sessions/{key}',
      'GET /v1/backends/{backend}/sessions/{key}/files',
      'GET /v1/backends/{backend}/sessions/{key}/files/{path}',
      'GET /v1/events',
      'GET /v1/executions',
      'GET /v1/executions/{id}',
      'GET /v1/executions/{id}/artifacts',
      'GET /v1/executions/{id}/artifacts/{path}',
      'GET /v1/executions/{id}/compare',
      'GET /v1/executions/{id}/events',
      'GET /v1/executions/{id}/output/{stream}',
      'GET /v1/executions/{id}/trace',
      'GET /v1/executions/{id}/why',
      'GET /v1/keys',
      'GET /v1/queue',
      'GET /v1/queue/tenants',
      'GET /v1/routines',
      'GET /v1/routines/{id}',
      'GET /v1/routines/{id}/events',
      'GET /v1/routines/{id}/runs',
      'GET /v1/sessions',
      'GET /v1/sessions/{id}/outputs',
      'GET /v1/sessions/{id}/outputs/{path}',
      'GET /v1/stats',
      'GET /v1/tenants',
      'GET /v1/tenants/{id}',
      'GET /v1/tenants/{id}/callback-secret',
      'GET /v1/tenants/{id}/caps',
      'GET /v1/tenants/{id}/keys',
      'GET /v1/tenants/{id}/policy',
      'GET /v1/tenants/{id}/policy/events',
      'GET /v1/tenants/{id}/templates',
      'GET /v1/tenants/{id}/templates/{template}',
      'GET /v1/tenants/{id}/usage',
      'GET /v1/tenants/{id}/workspaces',
      'GET /v1/tenants/{id}/workspaces/{name}',
      'PATCH /v1/routines/{id}',
      'PATCH /v1/tenants/{id}/caps',
      'PATCH /v1/tenants/{id}/policy',
      'POST /api/sandbox/config',
      'POST /api/sandbox/provision',
      'POST /api/sandbox/test',
      'POST /v1/backends/{backend}/sessions/{key}/fork',
      'POST /v1/backends/{backend}/sessions/{key}/pause',
      'POST /v1/backends/{backend}/sessions/{key}/resume',
      'POST /v1/backends/{backend}/test',
      'POST /v1/executions',
      'POST /v1/executions/{id}/cancel',
      'POST /v1/executions/{id}/rerun',
      'POST /v1/keys',
      'POST /v1/routines',
      'POST /v1/routines/{id}/run',
      'POST /v1/tenants',
      'POST /v1/tenants/{id}/callback-secret',
      'POST /v1/tenants/{id}/cancel',
      'POST /v1/tenants/{id}/keys',
      'PUT /v1/backends/{backend}/sessions/{key}/files/{path}',
      'PUT /v1/tenants/{id}/caps',
      'PUT /v1/tenants/{id}/policy',
      'PUT /v1/tenants/{id}/templates/{template}',
      'PUT /v1/tenants/{id}/workspaces/{name}',
    ])
  })

  it('gives each route a unique ID, a summary, its responses, and the shape of its failures', () => {
    const ids = operations().map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const { path, method, operation } of operations()) {
      const where = `${method} ${path}`
      expect(operation.summary, where).toMatch(/\.$/)
      const good = Object.entries(operation.responses).filter(([status]) => /^[23]/.test(status))
      expect(good.length, where).toBeGreaterThan(0)
      for (const [status, response] of Object.entries(operation.responses)) {
        expect(response.description, `${where} ${status}`).not.toBe('')
        if (!['204', '304'].includes(status)) expect(response.content, `${where} ${status}`).toBeDefined()
      }
      for (const status of ['4XX', '5XX']) {
        expect(operation.responses[status]?.content?.['application/json']?.schema, where).toEqual({
          $ref: '#/components/schemas/Error',
        })
      }
      if (['post', 'put', 'patch'].includes(method)) expect(operation.requestBody, where).toBeDefined()
    }
  })

  it('declares exactly the parameters in each path', () => {
    for (const { path, method, operation } of operations()) {
      const inPath = [...path.matchAll(/\{([^}]+)\}/g)].map((match) => match[1]!)
      const declared = (operation.parameters ?? []).filter((one) => one.in === 'path')
      expect(declared.map((one) => one.name).sort(), `${method} ${path}`).toEqual(inPath.sort())
      expect(declared.every((one) => one.required === true)).toBe(true)
    }
  })

  it('has no broken reference and no unused schema', () => {
    const text = JSON.stringify(document)
    const referred = [...text.matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1]!)
    const expected = Object.keys(document.components.schemas).map((name) => `#/components/schemas/${name}`)
    expect([...new Set(referred)].sort()).toEqual(expected.sort())
    expect(text).not.toContain('__SCHEMA')
  })

  it('requires a key for every route except the health checks and metrics that are read locally', () => {
    expect(document).toMatchObject({ security: [{ apiKey: [] }] })
    const others = operations().filter(({ operation }) => 'security' in operation)
    expect(Object.fromEntries(others.map(({ path, operation }) => [path, operation.security]))).toEqual({
      '/healthz': [],
      '/readyz': [],
      '/metrics': [{}, { apiKey: [] }],
    })
  })
})

describe('/docs', () => {
  it('loads nothing from another origin', async () => {
    const page = await scene.app.inject({ url: '/docs/' })
    expect(page.statusCode).toBe(200)
    expect(page.headers['content-security-policy']).toContain("script-src 'self'")
    expect(page.body).not.toMatch(/(src|href)="https?:/)
    const parts = [...page.body.matchAll(/(?:src|href)="\.\/([^"]+)"/g)].map((match) => match[1])
    expect(parts.length).toBeGreaterThan(2)
    for (const part of parts) {
      expect([part, (await scene.app.inject({ url: `/docs/${part}` })).statusCode]).toEqual([part, 200])
    }
    // The content security policy allows no inline script.
    expect(page.body).not.toMatch(/<script(?![^>]*src=)[^>]*>\s*\S/)
  })
})
