import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { problemOf } from "@/api/problem";
import type { InvitationOffer } from "@/api/types";
import { offerQuery, useJoin } from "@/data/invitations";
import { useLinkToken } from "@/data/linkToken";
import { meQuery, useSignIn, useSignOut } from "@/data/me";
import { EntryPage } from "@/ui/entry/EntryPage";
import { LogInForm } from "@/ui/entry/LogInForm";
import { Loading } from "@/ui/Loading";
import { ProblemPanel } from "@/ui/Problem";
import { When } from "@/ui/When";
import { SignUpForm } from "./SignUpForm";

const NAME = "Invitation";

/** Target of invitation links: accepts with a new or an existing account. */
export function InvitationPage() {
  const token = useLinkToken();
  const offer = useQuery({ ...offerQuery(token), enabled: token !== "" });
  if (token === "")
    return (
      <EntryPage
        name={NAME}
        title="Open your invitation link"
        lead="This URL contains no invitation. Open the complete link from your invitation."
      />
    );
  if (offer.data) return <Offer offer={offer.data} token={token} />;
  if (offer.isError && problemOf(offer.error).status === 404) return <Over />;
  return (
    <EntryPage name={NAME} title="Invitation">
      {offer.isError ? (
        <ProblemPanel error={offer.error} retry={() => offer.refetch()} compact />
      ) : (
        <Loading />
      )}
    </EntryPage>
  );
}

function Over() {
  return (
    <EntryPage
      name={NAME}
      title="This invitation is no longer valid"
      lead="It was used or revoked, or has expired. Ask an admin of the organization for a new link."
    />
  );
}

type OfferProps = { offer: InvitationOffer; token: string };

function Offer({ offer, token }: OfferProps) {
  const { organization, email, role, invitedBy, expiresAt, hasAccount } = offer;
  const navigate = useNavigate();
  const me = useQuery(meQuery);
  const signIn = useSignIn();
  const signOut = useSignOut();
  const join = useJoin();
  const enter = () => navigate({ to: "/o/$org", params: { org: organization.slug } });
  if (join.isError && problemOf(join.error).status === 404) return <Over />;

  const user = me.data?.user;
  const isLoggedOut = me.isError && problemOf(me.error).status === 401;
  const isSomeoneElse = user !== undefined && user.email.toLowerCase() !== email.toLowerCase();
  return (
    <EntryPage
      name={NAME}
      title={`Join ${organization.name}`}
      lead={
        <>
          {invitedBy} invited {email} as {role}. The link works once and expires <When at={expiresAt} />.
        </>
      }
    >
      {me.isPending && <Loading />}
      {me.isError && !isLoggedOut && <ProblemPanel error={me.error} retry={() => me.refetch()} compact />}
      {isLoggedOut && !hasAccount && <SignUpForm offer={offer} token={token} onSuccess={enter} />}
      {isLoggedOut && hasAccount && (
        <>
          <Text size="sm">You already have an account on this server. Log in to accept the invitation.</Text>
          <LogInForm signIn={signIn} email={email} />
        </>
      )}
      {isSomeoneElse && (
        <>
          <Text size="sm" className="wrap">
            You are logged in as {user.email}. Log out to accept the invitation for {email}.
          </Text>
          {signOut.isError && <ProblemPanel error={signOut.error} compact />}
          <Button fullWidth size="md" loading={signOut.isPending} onClick={() => signOut.mutate()}>
            Log out
          </Button>
        </>
      )}
      {user && !isSomeoneElse && (
        <>
          {join.isError && <ProblemPanel error={join.error} compact />}
          <Button
            fullWidth
            size="md"
            loading={join.isPending}
            onClick={() => join.mutate(token, { onSuccess: enter })}
          >
            Join {organization.name}
          </Button>
        </>
      )}
    </EntryPage>
  );
}
