/** Variables with names that look secret reach the program, and their values are shown nowhere. */
import { describe, expect, it } from 'vitest'
import { compileRules } from './redaction-rules.ts'
import { redactText } from './redactor.ts'

const VALUE = 'correct-horse-battery-staple/+=é'

describe('the value of a variable that looks like a secret', () => {
  it.each([
    'GITHUB_TOKEN',
    'API_TOKEN',
    'STRIPE_SECRET',
    'CLIENT_SECRET',
    'OPENAI_API_KEY',
    'PRIVATE_KEY',
    'SSH_KEY',
    'DB_PASSWORD',
    'PGPASSWORD',
    'MYSQL_PWD',
    'PASSPHRASE',
    'AWS_SECRET_ACCESS_KEY',
    'AWS_ACCESS_KEY_ID',
    'AWS_SESSION_TOKEN',
    'AZURE_CLIENT_SECRET',
    'GOOGLE_APPLICATION_CREDENTIALS',
    'SENTRY_DSN',
    'SESSION_COOKIE',
    'AUTH_HEADER',
    'api_key',
    'HMAC_SIGNATURE',
    'AZURE_STORAGE_CONNECTION_STRING',
  ])('%s is redacted, plain and encoded', (name) => {
    const rules = compileRules([], { [name]: VALUE })
    const forms = [
      VALUE,
      JSON.stringify({ it: VALUE }),
      encodeURIComponent(VALUE),
      Buffer.from(VALUE).toString('base64'),
      Buffer.from(VALUE).toString('hex'),
      Buffer.from(`x:${VALUE}`).toString('base64'),
    ]
    for (const form of forms) {
      const { text, hits } = redactText(rules, `before ${form} after`)
      expect(text).toMatch(/^before .*after$/s)
      expect(text).not.toContain('horse')
      expect(text).not.toContain(form)
      expect(hits).toBeGreaterThan(0)
    }
  })

  it('of a variable with any other name is not redacted', () => {
    for (const name of ['AUTHOR', 'PWD', 'HOME', 'COLOR', 'STAGE'])
      expect(redactText(compileRules([], { [name]: VALUE }), VALUE)).toEqual({ text: VALUE, hits: 0 })
  })
})
