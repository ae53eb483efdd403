/** Example YAML. A browser test checks that the server accepts it. */
export const FIRST_PIPELINE_PATH = ".berth/shop/pipeline.yaml";

export const FIRST_PIPELINE = `version: 1
pipeline:
  name: Shop
  tracks: main
  stages:
    - name: staging
    - name: production
      requires: { approvals: 1 }
  steps:
    - name: Deploy
      type: script
      params: { run: echo "deploying $BERTH_COMMIT" }
  ephemeral_environments:
    qa-1:
      ttl: 8h
`;

export const ENVIRONMENT_YAML = `ephemeral_environments:
  qa-1:
    ttl: 8h
`;
